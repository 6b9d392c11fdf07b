package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

// sendTimeout bounds a batch. One that is not acknowledged by then comes again.
const sendTimeout = 30 * time.Second

// Sink sends events as log records.
type Sink struct {
	ship.Receiver

	url       string
	endpoint  string // without its path, which may hold a token, for errors
	exporter  *otlploghttp.Exporter
	records   *records
	exchange  *exchange
	transport *http.Transport
}

// Open returns the sink of a description. The variables OTEL_EXPORTER_OTLP_… are not for sinks: only the description counts.
func Open(spec *sinks.Spec, env sinks.Environment) (*Sink, error) {
	if spec.URL.Host == "" {
		return nil, fmt.Errorf("%s: the URL has no host; write for example %s", spec.URL, spec.Scheme.Example)
	}
	endpoint := *spec.URL
	endpoint.Scheme, endpoint.RawQuery = "http", ""
	if spec.Scheme.Name == "otlps" {
		endpoint.Scheme = "https"
	}
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/logs"
	}
	auth, err := sinks.NewAuth(spec, env)
	if err != nil {
		return nil, err
	}
	compression, err := compressionOf(spec.Compression)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	x := &exchange{transport: transport, auth: auth}
	exporter, err := otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(endpoint.String()), compression,
		otlploghttp.WithHeaders(map[string]string{}), otlploghttp.WithRetry(otlploghttp.RetryConfig{}),
		otlploghttp.WithHTTPClient(&http.Client{Transport: x, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.URL, err)
	}
	return &Sink{url: endpoint.String(), endpoint: endpoint.Scheme + "://" + endpoint.Host, exporter: exporter, records: newRecords(), exchange: x, transport: transport}, nil
}

func compressionOf(setting string) (otlploghttp.Option, error) {
	switch setting {
	case "", "none":
		return otlploghttp.WithCompression(otlploghttp.NoCompression), nil
	case "gzip":
		return otlploghttp.WithCompression(otlploghttp.GzipCompression), nil
	}
	return nil, fmt.Errorf("compression=%s: OTLP has gzip and none", setting)
}

// Check implements ship.Sink. Without an event, there is nothing to ask the collector.
func (s *Sink) Check(context.Context) error { return s.exchange.auth.Check() }

// Send implements ship.Sink. It returns once the collector has accepted the records.
func (s *Sink) Send(ctx context.Context, b *ship.Batch) error {
	events, err := b.Events()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	s.exchange.begin()
	err = s.exporter.Export(ctx, s.records.of(events, b.Pause))
	return s.explain(err)
}

// explain says what an answer means: the exporter's errors have neither its status nor what it says about the next time.
func (s *Sink) explain(err error) error {
	answer := s.exchange.answer
	if answer.lost > 0 {
		return &ship.RejectedError{Err: fmt.Errorf("%s: the collector has not taken %d records: %s", s.endpoint, answer.lost, answer.message), Lost: answer.lost}
	}
	if answer.status/100 == 2 && answer.partial {
		return nil // all were taken, with a warning
	}
	if err == nil {
		return nil
	}
	var secret secretError
	if errors.As(err, &secret) {
		return secret.err
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // without the URL
	}
	if text := err.Error(); strings.Contains(text, s.url) {
		err = errors.New(strings.ReplaceAll(text, s.url, s.endpoint))
	}
	switch answer.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return ship.Rejected(fmt.Errorf("%s: %w", s.endpoint, err))
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: %w; set credential=env:NAME or credential=file:PATH to the token that the collector accepts", s.endpoint, err)
	case http.StatusNotFound:
		return fmt.Errorf("%s: %w; the collector has no logs there: enable its OTLP receiver over HTTP for logs, or correct the URL", s.endpoint, err)
	}
	err = fmt.Errorf("%s: %w", s.endpoint, err)
	if answer.after > 0 {
		return ship.RetryAfter(err, answer.after)
	}
	return err
}

// Close implements ship.Sink.
func (s *Sink) Close() error {
	err := errors.Join(s.exporter.Shutdown(context.Background()), s.records.close())
	s.transport.CloseIdleConnections()
	return err
}
