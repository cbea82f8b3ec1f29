// Command peer is both ends of the gRPC benchmarks: a broker that keeps nothing and answers at once, and clients that
// publish, take streams, sit idle or repeat one call. It speaks Danube's API by field numbers and has no generated code.
//
//	peer serve -port 50051 -payload 1024
//	peer publish -target host:port -in-flight 16 -connections 1 -seconds 5
//	peer receive -target host:port -seconds 5
//	peer idle -target host:port -connections 1000
//	peer call -target host:port -method /danube.ProducerService/SendMessage -message FILE -calls 1000 -in-flight 50
//
// Each prints what it does as one JSON object a line.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/grpc/encoding"
)

func main() {
	encoding.RegisterCodec(raw{})
	commands := map[string]func([]string) error{
		"serve": serve, "publish": publish, "receive": receive, "idle": idle, "call": call,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peer serve|publish|receive|idle|call [options]")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func tell(facts map[string]any) {
	line, err := json.Marshal(facts)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// raw lets encoded messages through as they are. It takes the name of the codec that every client asks for.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }

func (raw) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = data
	return nil
}
