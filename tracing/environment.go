package tracing

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// environment looks up variables of the process by name; an empty value is as good as none.
type environment func(name string) string

// settings are what the environment says about traces. The exporter of OpenTelemetry reads the rest itself, and this package checks it
// first, since it would leave out silently what it cannot read.
type settings struct {
	endpoint  string // without user and password
	protocol  string
	sampler   sampler
	resource  *resource.Resource // attributes of the node that the environment sets
	queueSize int                // spans that are kept until they are exported
}

// The values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	protocolProtobuf = "http/protobuf"
	protocolJSON     = "http/json"
	protocolGRPC     = "grpc"
)

// readSettings returns nil if no traces are to be exported.
func readSettings(env environment) (*settings, error) {
	if strings.EqualFold(strings.TrimSpace(env("OTEL_SDK_DISABLED")), "true") {
		return nil, nil //nolint:nilnil // which is not an error
	}
	endpoint, of := env.ofTraces("ENDPOINT")
	if endpoint == "" {
		return nil, nil //nolint:nilnil // the usual case
	}
	switch exporter := env("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return nil, nil //nolint:nilnil // which is not an error
	default:
		return nil, invalid("OTEL_TRACES_EXPORTER", exporter, "must be otlp or none")
	}
	s := &settings{}
	var err error
	if s.endpoint, err = checkEndpoint(of, endpoint); err != nil {
		return nil, err
	}
	return s, errors.Join(s.readExporter(env), s.readSampler(env), s.readQueue(env), s.readResource(env), checkPropagators(env))
}

// ofTraces returns a setting of the exporter, of which the variable for traces has precedence, and the variable's name.
func (env environment) ofTraces(name string) (value, variable string) {
	for _, variable = range [...]string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value = env(variable); value != "" {
			return value, variable
		}
	}
	return "", variable
}

func invalid(variable, value, must string) error {
	return fmt.Errorf("environment variable %s is %q: %s", variable, value, must)
}

// checkEndpoint returns the endpoint as logs may show it.
func checkEndpoint(variable, value string) (string, error) {
	u, err := url.Parse(value)
	switch {
	case err != nil: // whose text may have a password
		return "", fmt.Errorf("environment variable %s is no URL: must be http://HOST:PORT or https://HOST:PORT of an OpenTelemetry collector", variable)
	case u.User != nil:
		return "", fmt.Errorf("environment variable %s has a user or a password: credentials belong into OTEL_EXPORTER_OTLP_HEADERS", variable)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", invalid(variable, value, "must be http://HOST:PORT or https://HOST:PORT of an OpenTelemetry collector")
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String(), nil
}

// readExporter checks how spans are sent.
func (s *settings) readExporter(env environment) error {
	var of string
	s.protocol, of = env.ofTraces("PROTOCOL")
	switch s.protocol = cmp.Or(s.protocol, protocolProtobuf); s.protocol {
	case protocolProtobuf, protocolJSON, protocolGRPC:
	default:
		return invalid(of, s.protocol, "must be http/protobuf, http/json or grpc")
	}
	if c, of := env.ofTraces("COMPRESSION"); c != "" && c != "gzip" && c != "none" {
		return invalid(of, c, "must be gzip or none")
	}
	if d, of := env.ofTraces("TIMEOUT"); d != "" {
		if n, err := strconv.Atoi(d); err != nil || n <= 0 {
			return invalid(of, d, "must be a number of milliseconds above 0")
		}
	}
	return errors.Join(checkHeaders(env), checkCertificates(env))
}

// checkHeaders checks the headers for the collector, whose values are secret.
func checkHeaders(env environment) error {
	headers, of := env.ofTraces("HEADERS")
	if headers == "" {
		return nil
	}
	for pair := range strings.SplitSeq(headers, ",") {
		name, value, ok := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t:") || err != nil {
			return fmt.Errorf("environment variable %s cannot be read: must be NAME=VALUE,NAME=VALUE, with values URL-encoded", of)
		}
	}
	return nil
}

func checkCertificates(env environment) error {
	if file, of := env.ofTraces("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = errors.New("it has no certificate in PEM")
		}
		if err != nil {
			return fmt.Errorf("environment variable %s is %q: cannot read the certificate of the collector's authority: %w", of, file, err)
		}
	}
	certificate, of := env.ofTraces("CLIENT_CERTIFICATE")
	key, _ := env.ofTraces("CLIENT_KEY")
	if certificate == "" && key == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
		return fmt.Errorf("environment variable %s is %q: cannot read it with the key in %q: %w", of, certificate, key, err)
	}
	return nil
}

// maxQueue bounds the memory of spans that are not exported yet, to 256 MiB.
const maxQueue = 1 << 16

func (s *settings) readQueue(env environment) error {
	s.queueSize = sdktrace.DefaultMaxQueueSize
	for _, v := range [...]struct {
		name string
		most int
		to   *int
	}{
		{"OTEL_BSP_MAX_QUEUE_SIZE", maxQueue, &s.queueSize},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", maxQueue, nil},
		{"OTEL_BSP_SCHEDULE_DELAY", math.MaxInt32, nil},
		{"OTEL_BSP_EXPORT_TIMEOUT", math.MaxInt32, nil},
	} {
		value := env(v.name)
		if value == "" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > v.most {
			return invalid(v.name, value, fmt.Sprintf("must be a number from 1 to %d", v.most))
		}
		if v.to != nil {
			*v.to = n
		}
	}
	return nil
}

// readResource reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
func (s *settings) readResource(env environment) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var err error
	if s.resource, err = resource.New(ctx, resource.WithFromEnv()); err != nil {
		return invalid("OTEL_RESOURCE_ATTRIBUTES", env("OTEL_RESOURCE_ATTRIBUTES"), "must be NAME=VALUE,NAME=VALUE, with values URL-encoded")
	}
	return nil
}

// checkPropagators refuses headers that nodes do not speak: spans of one request would come apart.
func checkPropagators(env environment) error {
	value := env("OTEL_PROPAGATORS")
	if value == "" {
		return nil
	}
	known := false
	for name := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(name) {
		case "tracecontext":
			known = true
		case "baggage":
		default:
			return invalid("OTEL_PROPAGATORS", value, "must be tracecontext: nodes pass on traceparent and tracestate, and know no other headers")
		}
	}
	if !known {
		return invalid("OTEL_PROPAGATORS", value, "must have tracecontext: nodes pass on traceparent and tracestate, and know no other headers")
	}
	return nil
}
