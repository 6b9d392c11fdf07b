package otlptest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// ServeGRPC serves the collector over gRPC, too, until the end of the test, and returns the URL.
func (c *Collector) ServeGRPC(t testing.TB) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, &service{collector: c})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// service is a collector as gRPC calls it.
type service struct {
	collector.UnimplementedTraceServiceServer
	collector *Collector
}

// Export implements collector.TraceServiceServer.
func (s *service) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	raw, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	s.collector.keep(request, raw)
	return &collector.ExportTraceServiceResponse{}, nil
}

// unmarshalJSON reads the JSON of OTLP, which is that of Protocol Buffers but for ids in hexadecimal.
func unmarshalJSON(raw []byte, request *collector.ExportTraceServiceRequest) error {
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err
	}
	withIDs(tree)
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(text, request)
}

// withIDs encodes all ids of spans and traces as Protocol Buffers have them.
func withIDs(tree any) {
	switch tree := tree.(type) {
	case []any:
		for _, v := range tree {
			withIDs(v)
		}
	case map[string]any:
		for name, v := range tree {
			if text, ok := v.(string); ok && (name == "traceId" || strings.HasSuffix(strings.ToLower(name), "spanid")) {
				id, _ := hex.DecodeString(text) // nothing of another text, which a test sees
				tree[name] = base64.StdEncoding.EncodeToString(id)
				continue
			}
			withIDs(v)
		}
	}
}
