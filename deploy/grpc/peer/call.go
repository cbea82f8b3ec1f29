package main

import (
	"context"
	"flag"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// call makes unary calls with one message, many at once, and tells how many ended with which status.
func call(arguments []string) error {
	flags := flag.NewFlagSet("call", flag.ExitOnError)
	target := flags.String("target", "", "host:port")
	method := flags.String("method", "", "for example /danube.ProducerService/SendMessage")
	file := flags.String("message", "", "file with the encoded message")
	calls := flags.Int("calls", 1, "how many in all")
	inFlight := flags.Int("in-flight", 1, "how many at once")
	connections := flags.Int("connections", 1, "over how many connections")
	deadline := flags.Duration("deadline", 10*time.Minute, "of each call")
	_ = flags.Parse(arguments)
	message, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	opened := make([]*grpc.ClientConn, *connections)
	for each := range opened {
		if opened[each], err = dial(*target); err != nil {
			return err
		}
		defer opened[each].Close()
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	statuses, left := map[string]any{}, int64(*calls)
	for loop := 0; loop < *inFlight; loop++ {
		group.Add(1)
		go func(connection *grpc.ClientConn) {
			defer group.Done()
			for atomic.AddInt64(&left, -1) >= 0 {
				code := callOnce(connection, *method, message, *deadline)
				lock.Lock()
				seen, _ := statuses[code].(int)
				statuses[code] = seen + 1
				lock.Unlock()
			}
		}(opened[loop%*connections])
	}
	group.Wait()
	tell(statuses)
	return nil
}

func callOnce(connection *grpc.ClientConn, method string, message []byte, deadline time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var answer []byte
	return status.Code(connection.Invoke(ctx, method, &message, &answer)).String()
}
