package main

import (
	"context"
	"flag"
	"sort"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// publish sends messages one after the other from so many loops; what it measures is the time of one call.
func publish(arguments []string) error {
	flags := flag.NewFlagSet("publish", flag.ExitOnError)
	target := flags.String("target", "", "host:port")
	seconds := flags.Float64("seconds", 5, "for how long, after a fifth of it to warm up")
	inFlight := flags.Int("in-flight", 1, "how many at once")
	connections := flags.Int("connections", 1, "over how many connections")
	size := flags.Int("payload", 1024, "bytes of payload")
	rate := flags.Float64("rate", 0, "calls a second of all loops, which then begin at the same times; 0 for as many as are answered")
	deadline := flags.Duration("deadline", 0, "of each call, so that no two have the same headers; 0 for none")
	_ = flags.Parse(arguments)
	senders := make([]*sender, *connections)
	for each := range senders {
		opened, err := open(*target, *size)
		if err != nil {
			return err
		}
		defer opened.connection.Close()
		senders[each] = opened
	}
	lasts := time.Duration(*seconds * float64(time.Second))
	var period time.Duration
	if *rate > 0 {
		period = time.Duration(float64(*inFlight) / *rate * float64(time.Second))
	}
	warmUp, _, err := burst(senders, *inFlight, lasts/5, *deadline, period)
	if err != nil {
		return err
	}
	times, took, err := burst(senders, *inFlight, lasts, *deadline, period)
	if err != nil {
		return err
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	quantile := func(part float64) float64 { return times[int(part*float64(len(times)-1))].Seconds() * 1e3 }
	tell(map[string]any{
		"messages": len(times), "seconds": took, "p50_ms": quantile(0.5), "p99_ms": quantile(0.99),
		"sent": len(times) + len(warmUp),
	})
	return nil
}

// sender is one connection with one producer.
type sender struct {
	connection *grpc.ClientConn
	message    []byte
}

func open(target string, size int) (*sender, error) {
	connection, err := dial(target)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request := text(text(number(nil, 1, 1), 2, "producer-"+time.Now().String()), 3, topic)
	var answer []byte
	if err := connection.Invoke(ctx, "/danube.ProducerService/CreateProducer", &request, &answer); err != nil {
		connection.Close()
		return nil, err
	}
	position := text(number(nil, 1, attachment(answer)), 2, topic)
	message := text(number(nil, 1, 1), 2, string(position))
	return &sender{connection, text(message, 3, string(make([]byte, size)))}, nil
}

// burst returns how long each call took, and all of them together in seconds.
func burst(senders []*sender, loops int, lasts, deadline, period time.Duration) ([]time.Duration, float64, error) {
	var group sync.WaitGroup
	times, failures := make([][]time.Duration, loops), make([]error, loops)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := time.Now()
	for loop := 0; loop < loops; loop++ {
		group.Add(1)
		go func(loop int) {
			defer group.Done()
			times[loop], failures[loop] = senders[loop%len(senders)].send(ctx, started, lasts, deadline, period)
			if failures[loop] != nil {
				cancel()
			}
		}(loop)
	}
	group.Wait()
	took := time.Since(started).Seconds()
	var all []time.Duration
	for loop := range times {
		if err := failures[loop]; err != nil && status.Code(err) != codes.Canceled {
			return nil, 0, err
		}
		all = append(all, times[loop]...)
	}
	return all, took, nil
}

func (by *sender) send(ctx context.Context, started time.Time, lasts, deadline, period time.Duration) ([]time.Duration, error) {
	var times []time.Duration
	var answer []byte
	until := started.Add(lasts)
	for sent := time.Now(); sent.Before(until); {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if deadline > 0 {
			limited, cancel = context.WithTimeout(ctx, deadline)
		}
		err := by.connection.Invoke(limited, "/danube.ProducerService/SendMessage", &by.message, &answer)
		cancel()
		if err != nil {
			return times, err
		}
		now := time.Now()
		times, sent = append(times, now.Sub(sent)), now
		if period > 0 { // the next multiple of it
			time.Sleep(period - now.Sub(started)%period)
			sent = time.Now()
		}
	}
	return times, nil
}
