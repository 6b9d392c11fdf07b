package kafka_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/kafka"
	"colonnade/internal/faultproxy"
	"colonnade/internal/sinktest"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

const topic = "events"

// newCluster starts the fake Kafka of the client's own library.
func newCluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(3, topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, address, settings string, env sinks.Environment) *kafka.Sink {
	t.Helper()
	sink, err := kafka.Open(sinktest.Spec(t, "kafka://"+address+"/"+topic, settings), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func address(c *kfake.Cluster) string { return c.ListenAddrs()[0] }

// read returns the records of the topic, once there are n.
func read(t *testing.T, address string, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n && ctx.Err() == nil {
		records = append(records, client.PollFetches(ctx).Records()...)
	}
	return records
}

// has checks that the topic has the events from one number up to another, each once after repeated ones are removed.
func has(t *testing.T, address string, from, to int) {
	t.Helper()
	var ids []string
	testkit.WaitFor(t, "all events", func() bool {
		ids = nil
		for _, r := range read(t, address, to-from) {
			ids = append(ids, string(r.Key))
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		return len(ids) >= to-from
	})
	if !slices.Equal(ids, sinktest.IDs(from, to)) {
		t.Fatalf("the topic has %d events, want %d", len(ids), to-from)
	}
}

func TestRecords(t *testing.T) {
	c := newCluster(t)
	sink := open(t, address(c), "", sinks.Environment{})
	b := sinktest.Batch(t, 0, 500)
	sinktest.Send(t, sink, b)
	records := read(t, address(c), 500)
	if len(records) != 500 {
		t.Fatalf("%d records", len(records))
	}
	first := sinktest.Event(0)
	i := slices.IndexFunc(records, func(r *kgo.Record) bool { return string(r.Key) == first.EventID })
	if r := records[i]; string(r.Value) != string(b.Line(0)) || !r.Timestamp.Equal(first.Time.Truncate(time.Millisecond)) {
		t.Errorf("got %s at %v", r.Value, r.Timestamp)
	}
	has(t, address(c), 0, 500)
	sinktest.Send(t, sink, b) // an event that is repeated is in the same partition
	partitions := map[string]int32{}
	for _, r := range read(t, address(c), 1000) {
		if p, seen := partitions[string(r.Key)]; seen && p != r.Partition {
			t.Fatalf("event %s is in the partitions %d and %d", r.Key, p, r.Partition)
		}
		partitions[string(r.Key)] = r.Partition
	}
}

func TestAwayAtStartAndInBetween(t *testing.T) {
	c := newCluster(t)
	sink := open(t, "127.0.0.1:1", "", sinks.Environment{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 0, 10)); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
	sink = open(t, address(c), "", sinks.Environment{})
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	refuse := true
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !refuse {
			return nil, nil, false
		}
		return nil, errors.New("dead"), true // ends the connection
	})
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 10, 20)); err == nil {
		t.Error("taken by a broker that ends connections")
	}
	c.Control(func(kmsg.Request) (kmsg.Response, error, bool) { refuse = false; return nil, nil, false })
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	has(t, address(c), 0, 20)
}

// A broker that takes a batch and ends before it says so gets the batch again.
func TestTakenAndDead(t *testing.T) {
	c := newCluster(t)
	proxied := testkit.NewProxy(t, address(c))
	sink := open(t, proxied.Address, "", sinks.Environment{})
	for i := range 5 {
		proxied.InjectNext(faultproxy.Fault{Kind: faultproxy.Reset, Way: faultproxy.ToClient, At: int64(100 * i)})
		sinktest.Send(t, sink, sinktest.Batch(t, i*10, i*10+15))
	}
	has(t, address(c), 0, 55)
}

// A broker that does not answer holds a batch no longer than the shipper wants. One that answers slowly gets it, and each event is there.
func TestSilentAndSlowBroker(t *testing.T) {
	c := newCluster(t)
	sink := open(t, address(c), "", sinks.Environment{})
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	produced := make(chan struct{}, 10)
	answer := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		produced <- struct{}{}
		c.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 10, 20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent broker: %v", err)
	}
	<-produced
	sent := make(chan error, 1)
	go func() { sent <- sink.Send(t.Context(), sinktest.Batch(t, 10, 30)) }()
	<-produced // the same sink, which waits now
	close(answer)
	if err := <-sent; err != nil {
		t.Errorf("a slow broker: %v", err)
	}
	has(t, address(c), 0, 30)
}

// A broker refuses all records of a partition for one of them, or for the sum of them: only a record that came alone is at fault.
func TestRefusedEvents(t *testing.T) {
	c := newCluster(t)
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		request := r.(*kmsg.ProduceRequest)
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range request.Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, kerr.MessageTooLarge.Code
				st.Partitions = append(st.Partitions, sp)
			}
			response.Topics = append(response.Topics, st)
		}
		return response, nil, true
	})
	sink := open(t, address(c), "", sinks.Environment{})
	f := func(events int, want []int) {
		t.Helper()
		err := sink.Send(t.Context(), sinktest.Batch(t, 0, events))
		var rejected *ship.RejectedError
		if !errors.As(err, &rejected) || !slices.Equal(rejected.Events, want) {
			t.Errorf("got %v", err)
		}
	}
	f(3, nil)
	f(1, []int{0})
}

func TestErrors(t *testing.T) {
	fails := func(sink *kafka.Sink, want ...string) {
		t.Helper()
		sinktest.Fails(t, sink, sinktest.Batch(t, 0, 2), false, want...)
	}
	c := newCluster(t)
	other, err := kafka.Open(sinktest.Spec(t, "kafka://"+address(c)+"/none", ""), sinks.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	fails(other, "topic none", "kafka-topics --create --topic none")
	sinktest.FailsCheck(t, other, "topic none", "kafka-topics --create --topic none")
	c = newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "writer", "right"), kfake.Superuser("PLAIN", "plain", "right"))
	fails(open(t, "writer@"+address(c), "", sinktest.Secret("wrong")), "user=writer", "sasl=scram-sha-512", "what credential names")
	unset := errors.New("credential=env:X: it is not set")
	fails(open(t, "writer@"+address(c), "", sinks.Environment{Credential: func() (string, error) { return "", unset }}), unset.Error())
	sinktest.Send(t, open(t, "writer@"+address(c), "", sinktest.Secret("right")), sinktest.Batch(t, 0, 2))
	sinktest.Send(t, open(t, "plain@"+address(c), "sasl=plain", sinktest.Secret("right")), sinktest.Batch(t, 0, 2))
}

func TestBadSettings(t *testing.T) {
	f := func(url, settings, want string) {
		t.Helper()
		if _, err := kafka.Open(sinktest.Spec(t, url, settings), sinks.Environment{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
	f("kafka://host:9092", "", "needs brokers and a topic")
	f("kafka:///events", "", "needs brokers and a topic")
	f("kafka://host/a", "tls=yes", "tls=yes: must be true or false")
	f("kafka://host/a", "ca=/x", "set both")
	f("kafka://host/a", "tls=true&ca=/x", "ca=/x: open /x")
	f("kafka://user@host/a", "", "needs a user in the URL and a credential")
	f("kafka://host/a", "sasl=gssapi", "sasl=gssapi: must be plain")
}
