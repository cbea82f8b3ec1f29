// Command franz-go publishes records with franz-go's idempotent producer, which has up to five requests under
// way. It reads one JSON object from its standard input, and writes one that says which records failed.
package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

type order struct {
	Bootstrap string   `json:"bootstrap"`
	Topic     string   `json:"topic"`
	Lane      string   `json:"lane"`
	Values    []string `json:"values"`
	BatchSize int32    `json:"batch_size"`
}

func main() {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.Bootstrap),
		kgo.DefaultProduceTopic(o.Topic),
		kgo.ProducerBatchMaxBytes(o.BatchSize),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	var lock sync.Mutex
	failed := map[int]string{}
	stored := map[int]int64{}
	for place, value := range o.Values {
		number := place
		record := &kgo.Record{Key: []byte(o.Lane), Value: []byte(value)}
		client.Produce(context.Background(), record, func(made *kgo.Record, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed[number] = err.Error()
			} else {
				stored[number] = made.Offset
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"failed": failed, "stored": stored}); err != nil {
		panic(err)
	}
}
