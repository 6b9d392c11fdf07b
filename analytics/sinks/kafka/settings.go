package kafka

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"colonnade/analytics/sinks"
)

// settings say where to produce.
type settings struct {
	brokers     []string
	topic       string
	user        string
	mechanism   string // plain, scram-sha-256 or scram-sha-512; empty = no authentication
	tls         *tls.Config
	compression kgo.CompressionCodec
}

func parse(spec *sinks.Spec, secret bool) (settings, error) {
	s := settings{topic: strings.Trim(spec.URL.Path, "/"), user: spec.URL.User.Username(), mechanism: spec.Param("sasl", "")}
	for broker := range strings.SplitSeq(spec.URL.Host, ",") {
		if broker != "" {
			s.brokers = append(s.brokers, broker)
		}
	}
	if len(s.brokers) == 0 || s.topic == "" || strings.Contains(s.topic, "/") {
		return s, fmt.Errorf("%s: the URL needs brokers and a topic; write for example %s", spec.URL, spec.Scheme.Example)
	}
	if s.mechanism == "" && (s.user != "" || secret) {
		s.mechanism = "scram-sha-512"
	}
	switch s.mechanism {
	case "", "plain", "scram-sha-256", "scram-sha-512":
	default:
		return s, fmt.Errorf("sasl=%s: must be plain, scram-sha-256 or scram-sha-512", s.mechanism)
	}
	if s.mechanism != "" && (s.user == "" || !secret) {
		return s, fmt.Errorf("sasl=%s: needs a user in the URL and a credential: write kafka://USER@BROKER:9092/TOPIC?credential=env:NAME", s.mechanism)
	}
	var err error
	if s.compression, err = codec(spec.Compression); err != nil {
		return s, err
	}
	s.tls, err = spec.TLS()
	return s, err
}

func codec(setting string) (kgo.CompressionCodec, error) {
	switch setting {
	case "", "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), fmt.Errorf("compression=%s: must be none, gzip or zstd", setting)
}

// options returns those of the client, with the secret as it is now. There is no RecordDeliveryTimeout: the client counts it from a record's timestamp, which is
// the event's time, so that no event of a backlog would be tried again. The context of a batch bounds it.
func (s settings) options(secret func() (string, error)) ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.brokers...), kgo.ClientID("colonnade"), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(s.compression),
		kgo.DialTimeout(10 * time.Second), kgo.RequestRetries(3), kgo.UnknownTopicRetries(1),
		kgo.ProducerLinger(0), kgo.AllowIdempotentProduceCancellation(), kgo.MaxBufferedRecords(sinks.MaxBatchEvents + 1),
	}
	if s.tls != nil {
		options = append(options, kgo.DialTLSConfig(s.tls))
	}
	if s.mechanism == "" {
		return options, nil
	}
	password, err := secret()
	if err != nil {
		return nil, err
	}
	var mechanism sasl.Mechanism
	switch s.mechanism {
	case "plain":
		mechanism = plain.Auth{User: s.user, Pass: password}.AsMechanism()
	case "scram-sha-256":
		mechanism = scram.Auth{User: s.user, Pass: password}.AsSha256Mechanism()
	default:
		mechanism = scram.Auth{User: s.user, Pass: password}.AsSha512Mechanism()
	}
	return append(options, kgo.SASL(mechanism)), nil
}
