package main

import (
	"flag"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const topic = "/default/benchmark"

var lastID atomic.Uint64

// Answers to unary calls, from the request's id.
var unary = map[string]func(request uint64) []byte{
	"/danube.ProducerService/CreateProducer": attached("producer"),
	"/danube.ConsumerService/Subscribe":      attached("consumer"),
	"/danube.ProducerService/SendMessage":    echoed,
	"/danube.ConsumerService/Ack":            echoed,
	"/danube.ConsumerService/Nack":           echoed,
	"/danube.HealthCheck/HealthCheck":        func(uint64) []byte { return number(nil, 1, 0) },
}

func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	port := flags.Int("port", 0, "port of 127.0.0.1; 0 takes a free one")
	size := flags.Int("payload", 1024, "bytes of payload in each message that ReceiveMessages sends")
	_ = flags.Parse(arguments)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		return err
	}
	tell(map[string]any{"listening": listener.Addr().String()})
	handler := func(_ any, stream grpc.ServerStream) error { return answer(stream, *size) }
	return grpc.NewServer(grpc.UnknownServiceHandler(handler)).Serve(listener)
}

func answer(stream grpc.ServerStream, payload int) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	id := requestID(request)
	if method == "/danube.ConsumerService/ReceiveMessages" {
		return send(stream, id, payload)
	}
	reply := unary[method]
	if reply == nil {
		return status.Errorf(codes.Unimplemented, "%s is not known", method)
	}
	message := reply(id)
	return stream.SendMsg(&message)
}

// send goes on until the client has enough.
func send(stream grpc.ServerStream, request uint64, payload int) error {
	content := make([]byte, payload)
	for offset := uint64(0); ; offset++ {
		position := number(nil, 1, 1)
		position = text(position, 2, topic)
		position = number(position, 5, offset)
		message := number(nil, 1, request)
		message = text(message, 2, string(position))
		message = text(message, 3, string(content))
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

func attached(kind string) func(uint64) []byte {
	return func(request uint64) []byte {
		message := number(nil, 1, request)
		message = number(message, 2, lastID.Add(1))
		return text(message, 3, kind)
	}
}

func echoed(request uint64) []byte { return number(nil, 1, request) }

func number(to []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), value)
}

func text(to []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(to, field, protowire.BytesType), value)
}

// requestID is field 1 of a request if it comes first, else 0.
func requestID(request []byte) uint64 {
	field, kind, size := protowire.ConsumeTag(request)
	if size < 0 || field != 1 || kind != protowire.VarintType {
		return 0
	}
	id, _ := protowire.ConsumeVarint(request[size:])
	return id
}

// attachment is the second field of what answers CreateProducer and Subscribe.
func attachment(answer []byte) uint64 {
	_, _, first := protowire.ConsumeField(answer)
	_, _, tag := protowire.ConsumeTag(answer[first:])
	id, _ := protowire.ConsumeVarint(answer[first+tag:])
	return id
}
