package main

import (
	"context"
	"flag"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// publish sends messages one after the other from so many loops; what it measures is the time of one call.
func publish(arguments []string) error {
	flags := flag.NewFlagSet("publish", flag.ExitOnError)
	target := flags.String("target", "", "host:port")
	messages := flags.Int("messages", 100_000, "how many to send, after a tenth of them")
	inFlight := flags.Int("in-flight", 1, "how many at once")
	connections := flags.Int("connections", 1, "over how many connections")
	size := flags.Int("payload", 1024, "bytes of payload")
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
	if _, _, err := burst(senders, *inFlight, *messages/10); err != nil {
		return err
	}
	times, seconds, err := burst(senders, *inFlight, *messages)
	if err != nil {
		return err
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	quantile := func(part float64) float64 { return float64(times[int(part*float64(len(times)-1))].Nanoseconds()) / 1e6 }
	tell(map[string]any{
		"messages": len(times), "seconds": seconds, "p50_ms": quantile(0.5), "p99_ms": quantile(0.99),
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

// burst returns how long each call took, and all of them together.
func burst(senders []*sender, loops, messages int) ([]time.Duration, float64, error) {
	var taken atomic.Int64
	var failure error
	var failed sync.Once
	var group sync.WaitGroup
	times := make([]time.Duration, messages)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	started := time.Now()
	for loop := 0; loop < loops; loop++ {
		group.Add(1)
		go func(by *sender) {
			defer group.Done()
			var answer []byte
			for turn := taken.Add(1); turn <= int64(messages); turn = taken.Add(1) {
				sent := time.Now()
				if err := by.connection.Invoke(ctx, "/danube.ProducerService/SendMessage", &by.message, &answer); err != nil {
					failed.Do(func() { failure = err })
					cancel()
					return
				}
				times[turn-1] = time.Since(sent)
			}
		}(senders[loop%len(senders)])
	}
	group.Wait()
	return times, time.Since(started).Seconds(), failure
}
