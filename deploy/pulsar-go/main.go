// Command pulsar-go has producers and consumers of Pulsar's Go client at their defaults, steered in lines of
// JSON on its standard streams: tests/matrix/clients/serving.py says which.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

type command struct {
	ID           int     `json:"id"`
	Do           string  `json:"do"`
	Of           int     `json:"of"`
	Address      string  `json:"address"`
	Topic        string  `json:"topic"`
	Subscription string  `json:"subscription"`
	Exclusive    bool    `json:"exclusive"`
	Size         int     `json:"size"`
	WithinS      float64 `json:"within_s"`
	Message      int     `json:"message"`
	Asked        struct {
		DeliverAt int64 `json:"deliver_at"`
	} `json:"asked"`
}

type answer map[string]any

// made is a producer or a consumer with the client that it has to itself.
type made struct {
	client   pulsar.Client
	producer pulsar.Producer
	consumer pulsar.Consumer
}

type serving struct {
	sync.Mutex
	out      *json.Encoder
	made     map[int]made
	messages map[int]pulsar.Message
	next     int
}

func main() {
	s := &serving{out: json.NewEncoder(os.Stdout), made: map[int]made{}, messages: map[int]pulsar.Message{}}
	s.say(answer{"id": 0})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		go s.answer(c)
	}
}

func (s *serving) say(what answer) {
	s.Lock()
	defer s.Unlock()
	if err := s.out.Encode(what); err != nil {
		os.Exit(1)
	}
}

func (s *serving) answer(c command) {
	told, err := s.told(c)
	if err != nil {
		told = answer{"refused": err.Error()}
	}
	told["id"] = c.ID
	s.say(told)
}

func (s *serving) told(c command) (answer, error) {
	switch c.Do {
	case "producer", "consumer":
		return answer{}, s.make(c)
	case "publish":
		return answer{}, s.publish(c)
	case "receive":
		return s.receive(c)
	case "acknowledge":
		s.Lock()
		message := s.messages[c.Message]
		delete(s.messages, c.Message)
		s.Unlock()
		return answer{}, s.get(c.Of).consumer.Ack(message)
	case "close":
		one := s.get(c.Of)
		if one.producer != nil {
			one.producer.Close()
		} else {
			one.consumer.Close()
		}
		one.client.Close()
		return answer{}, nil
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func (s *serving) get(of int) made {
	s.Lock()
	defer s.Unlock()
	return s.made[of]
}

func (s *serving) make(c command) error {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:    "pulsar://" + c.Address,
		Logger: log.NewLoggerWithLogrus(quiet),
	})
	if err != nil {
		return err
	}
	one := made{client: client}
	if c.Do == "producer" {
		one.producer, err = client.CreateProducer(pulsar.ProducerOptions{Topic: c.Topic})
	} else {
		kind := pulsar.Shared
		if c.Exclusive {
			kind = pulsar.Exclusive
		}
		one.consumer, err = client.Subscribe(pulsar.ConsumerOptions{
			Topic:                       c.Topic,
			SubscriptionName:            c.Subscription,
			Type:                        kind,
			SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		})
	}
	if err != nil {
		client.Close()
		return err
	}
	s.Lock()
	defer s.Unlock()
	s.made[c.ID] = one
	return nil
}

func (s *serving) publish(c command) error {
	message := pulsar.ProducerMessage{Payload: make([]byte, c.Size)}
	if c.Asked.DeliverAt != 0 {
		message.DeliverAt = time.UnixMilli(c.Asked.DeliverAt)
	}
	_, err := s.get(c.Of).producer.Send(context.Background(), &message)
	return err
}

func (s *serving) receive(c command) (answer, error) {
	within, cancel := context.WithTimeout(context.Background(), time.Duration(c.WithinS*float64(time.Second)))
	defer cancel()
	message, err := s.get(c.Of).consumer.Receive(within)
	if errors.Is(err, context.DeadlineExceeded) {
		return answer{"message": nil}, nil
	}
	if err != nil {
		return nil, err
	}
	now := float64(time.Now().UnixMicro()) / 1e3
	s.Lock()
	defer s.Unlock()
	s.next++
	s.messages[s.next] = message
	published := float64(message.PublishTime().UnixMicro()) / 1e3
	return answer{"message": []any{len(message.Payload()), published, now, s.next}}, nil
}
