package main

import (
	"bufio"
	"context"
	"flag"
	"os"
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
	messages := flags.Int("messages", 100_000, "how many to take, after as many as a tenth of them")
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
	return take(stream, *messages)
}

func take(stream grpc.ClientStream, count int) error {
	warmUp, bytes := count/10, 0
	var started time.Time
	for taken := 0; taken < warmUp+count; taken++ {
		if taken == warmUp {
			started, bytes = time.Now(), 0
		}
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		bytes += len(message)
	}
	seconds := time.Since(started).Seconds()
	tell(map[string]any{"messages": count, "bytes": bytes, "seconds": seconds})
	return nil
}

// idle keeps connections that made one call each, until its input ends.
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
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return nil
}
