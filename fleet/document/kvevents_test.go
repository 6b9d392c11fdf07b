package document_test

import (
	"slices"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

func TestKVEventsRules(t *testing.T) {
	f := func(address string, want ...string) {
		t.Helper()
		err := document.Check("endpoints/ams/e", []byte(endpointHead+"kv_events: "+address))
		if len(want) == 0 {
			if err == nil || !strings.Contains(err.Error(), "kv_events: ") || !strings.Contains(err.Error(), `must be tcp://HOST:PORT`) {
				t.Errorf("%s: %v", address, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		e := documents(t, "endpoints/ams/e", endpointHead+"kv_events: "+address).Table().EndpointsOf("ams")[0]
		if got, ok := fleet.KVEventAddresses(e.KVEvents); !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %v", address, got)
		}
	}
	f("tcp://10.0.0.7:5557", "10.0.0.7:5557")
	f("tcp://gpu-7.example:65535", "gpu-7.example:65535")
	f("'tcp://[2001:db8::7]:5557-5559'", "[2001:db8::7]:5557", "[2001:db8::7]:5558", "[2001:db8::7]:5559")
	f("tcp://gpu-7:5557-5558", "gpu-7:5557", "gpu-7:5558")
	for _, address := range []string{
		"'tcp://*:5557'", "10.0.0.7:5557", "ipc:///tmp/kv", "http://10.0.0.7:5557", "tcp://10.0.0.7", "tcp://:5557", "tcp://a:0", "tcp://a:05557",
		"tcp://a:65536", "tcp://a:5557-5557", "tcp://a:5558-5557", "tcp://a:5557-5621", "tcp://a:65530-65540", "tcp://a:5557-", "tcp://a:5557/x",
		"'tcp://2001:db8::7:5557'", "'tcp://user@a:5557'", "'tcp://a:5557?x'", "''",
	} {
		f(address)
	}
	err := document.Check("defaults", []byte("endpoint: {kv_events: tcp://a:5557}"))
	if err == nil || !strings.Contains(err.Error(), "endpoint.kv_events") {
		t.Errorf("as a default: %v", err)
	}
	if err := document.Check("endpoints/ams/e", []byte(endpointHead+"kv_events: 'tcp://user:secret@a:5557'")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a password: %v", err)
	}
}
