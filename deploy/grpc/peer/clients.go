package main

import (
	"context"
	"flag"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func dial(target string) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return grpc.DialContext(ctx, target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithBlock())
}

// receive subscribes, and takes messages as fast as they come.
func receive(arguments []string) error {
	flags := flag.NewFlagSet("receive", flag.ExitOnError)
	target := flags.String("target", "", "host:port")
	seconds := flags.Float64("seconds", 5, "for how long, after a fifth of it to warm up")
	_ = flags.Parse(arguments)
	connection, err := dial(*target)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	request := text(text(text(number(nil, 1, 1), 2, topic), 3, "consumer"), 4, "subscription")
	var answer []byte
	if err := connection.Invoke(ctx, "/danube.ConsumerService/Subscribe", &request, &answer); err != nil {
		return err
	}
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/danube.ConsumerService/ReceiveMessages")
	if err != nil {
		return err
	}
	request = number(number(nil, 1, 2), 2, attachment(answer))
	if err := stream.SendMsg(&request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return take(stream, time.Duration(*seconds*float64(time.Second)))
}

func take(stream grpc.ClientStream, lasts time.Duration) error {
	var message []byte
	warmUp, messages, bytes := 0, 0, 0
	started := time.Now().Add(lasts / 5)
	for now := time.Now(); now.Before(started.Add(lasts)); now = time.Now() {
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		if now.Before(started) {
			warmUp++
			continue
		}
		messages++
		bytes += len(message)
	}
	took := time.Since(started).Seconds()
	tell(map[string]any{"messages": messages, "bytes": bytes, "seconds": took, "taken": warmUp + messages})
	return nil
}

// idle keeps connections that made one call each, until it is ended.
func idle(arguments []string) error {
	flags := flag.NewFlagSet("idle", flag.ExitOnError)
	target := flags.String("target", "", "host:port")
	count := flags.Int("connections", 1000, "how many")
	_ = flags.Parse(arguments)
	request := number(nil, 2, 0)
	for opened := 0; opened < *count; opened++ {
		connection, err := dial(*target)
		if err != nil {
			return err
		}
		defer connection.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		var answer []byte
		err = connection.Invoke(ctx, "/danube.HealthCheck/HealthCheck", &request, &answer)
		cancel()
		if err != nil {
			return err
		}
	}
	tell(map[string]any{"connections": *count})
	select {}
}
