package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/kafka"
	"colonnade/internal/kafkatest"
	"colonnade/internal/sinktest"
	"colonnade/internal/testkit"
)

// A broker of Apache Kafka has each event, though it is killed in between.
func TestBrokerOfApacheKafka(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Start(t)
	sink := open(t, broker.Address(), "", sinks.Environment{})
	if err := sink.Check(t.Context()); err == nil || !strings.Contains(err.Error(), topic) {
		t.Errorf("without the topic, the check says %v", err)
	}
	createTopic(t, broker.Address())
	from := 0
	for _, compression := range []string{"none", "gzip", "zstd"} {
		spec := sinktest.Spec(t, "kafka://"+broker.Address()+"/"+topic, "")
		spec.Compression = compression
		one, err := kafka.Open(spec, sinks.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		sinktest.Send(t, one, sinktest.Batch(t, from, from+1000))
		from += 1000
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := sink.Check(t.Context()); err != nil {
		t.Error(err)
	}
	sinktest.Send(t, sink, sinktest.Batch(t, from, from+1000))
	broker.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	rest := sinktest.Batch(t, from+1000, from+2000)
	if err := sink.Send(ctx, rest); err == nil {
		t.Error("a broker that was killed has taken a batch")
	}
	broker.Run()
	testkit.WaitFor(t, "the batch", func() bool { return sink.Send(t.Context(), rest) == nil })
	has(t, broker.Address(), 0, from+2000)
}

// createTopic creates the topic with three partitions.
func createTopic(t *testing.T, address string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 3, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, wanted)
	answer, err := request.RequestWith(t.Context(), client)
	if err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatalf("cannot create the topic: %v %+v", err, answer)
	}
}
