package node_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/peertls"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/internal/tlstest"
	"colonnade/node"
)

// place is a process that serves one place, whose documents are files.
type place struct {
	dir, data string
	running   node.Running
	stop      func()
}

func startPlace(t *testing.T, c node.ServeConfig) *place {
	t.Helper()
	p := &place{dir: t.TempDir(), data: c.DataDir}
	if p.data == "" {
		p.data = t.TempDir()
	}
	c.Documents, c.DataDir, c.Listen, c.Admin, c.Open = p.dir, p.data, "127.0.0.1:0", "127.0.0.1:0", true
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p.write(t, "models.yaml", "key: models/m\n")
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan node.Running, 1), make(chan error, 1)
	go func() { ended <- node.RunServe(ctx, c, func(r node.Running) { started <- r }) }()
	p.stop = func() {
		cancel()
		if ended == nil {
			return
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended = nil
	}
	t.Cleanup(p.stop)
	select {
	case p.running = <-started:
	case err := <-ended:
		ended = nil
		t.Fatal(err)
	}
	return p
}

func (p *place) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// request makes one event: there is no endpoint, so it is refused.
func (p *place) request(t *testing.T) {
	t.Helper()
	status, _, text := testkit.Post("http://"+p.running.Address+"/v1/completions", `{"model":"m","prompt":"x"}`)
	if status == 0 || status == 200 {
		t.Fatal(status, text)
	}
}

func (p *place) config(t *testing.T) (c node.ConfigState) {
	t.Helper()
	_, text := testkit.Get("http://" + p.running.Admin + "/debug/config")
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err, text)
	}
	return c
}

func lines(path string) int {
	text, _ := os.ReadFile(path)
	return strings.Count(string(text), "\n")
}

// A sink of a flag and one of a document get the events; the document is taken up, changed and removed while the node serves, and the last
// events arrive before the node has stopped.
func TestSinksOfFlagsAndDocuments(t *testing.T) {
	flagged := filepath.Join(t.TempDir(), "e.jsonl")
	p := startPlace(t, node.ServeConfig{Config: node.Config{Sinks: []string{"file:" + flagged + "?every=20ms&name=disk"}}})
	p.request(t)
	testkit.WaitFor(t, "an event at the sink of the flag", func() bool { return lines(flagged) == 1 })
	own := filepath.Join(p.data, "sinks", "local-1")
	p.write(t, "sinks.yaml", "{key: sinks/doc, url: 'file:a.jsonl', every: 20ms}\n")
	testkit.WaitFor(t, "an event at the sink of the document", func() bool { return lines(filepath.Join(own, "a.jsonl")) == 1 })
	testkit.WaitFor(t, "both sinks to have all events", func() bool { // the event is in the file before it is counted
		c := p.config(t)
		return len(c.Sinks) == 2 && c.Sinks[0].Name == "disk" && c.Sinks[1].Document == "sinks/doc" && c.Sinks[1].LagEvents == 0
	})
	p.write(t, "sinks.yaml", "{key: sinks/doc, url: 'file:b.jsonl', every: 20ms}\n")
	requests := 2 // with the last one
	testkit.WaitFor(t, "an event at the changed sink", func() bool {
		p.request(t) // the sink before may have had the ones before
		requests++
		return lines(filepath.Join(own, "b.jsonl")) > 0
	})
	testkit.WaitFor(t, "the metrics of the sink", func() bool {
		_, text := testkit.Get("http://" + p.running.Admin + "/metrics")
		return strings.Contains(text, `colonnade_events_sink_lag_events{sink="doc"} 0`)
	})
	p.write(t, "sinks.yaml", "# none\n")
	testkit.WaitFor(t, "the end of the sink", func() bool { return len(p.config(t).Sinks) == 1 })
	p.request(t)
	p.stop()
	if got := lines(flagged); got != requests {
		t.Errorf("the sink of the flag has %d events after the end, want %d", got, requests)
	}
	if got := lines(filepath.Join(own, "a.jsonl")) + lines(filepath.Join(own, "b.jsonl")); got != requests-1 {
		t.Errorf("the sink of the document has %d events, want %d", got, requests-1)
	}
}

// A sink that cannot be opened or does not answer is a problem with what to do, and the node serves.
func TestSinkThatIsAwayIsAProblem(t *testing.T) {
	p := startPlace(t, node.ServeConfig{Config: node.Config{Sinks: []string{
		"http://127.0.0.1:1/in?name=gone&every=20ms", "http://127.0.0.1:1/in?name=secret&credential=env:COLONNADE_NOT_SET&every=20ms", "file:/x?name=wrong&keep=-1",
	}}})
	p.request(t)
	testkit.WaitFor(t, "the problems", func() bool {
		found := ""
		for _, problem := range p.config(t).Problems {
			found += problem.Text + "\n"
		}
		for _, want := range []string{"the sink gone has taken no events", "1 event waiting", "COLONNADE_NOT_SET: the environment variable is not set", "cannot open the sink wrong: ", "keep=-1: must be a number"} {
			if !strings.Contains(found, want) {
				return false
			}
		}
		return true
	})
	p.request(t)
}

// An entry reads the credentials of sinks that documents name below its directory for them, and never the files of its own certificate.
func TestEntryReadsCredentialsOfSinks(t *testing.T) {
	ca, files := tlstest.NewCA(t, "web"), tlstest.NewFiles(t)
	files.Put(ca, "", nil)
	dir := filepath.Dir(files.Key)
	tlstest.Write(t, filepath.Join(dir, "receiver"), []byte("secret\n"))
	authorized := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		authorized <- r.URL.Path + " " + r.Header.Get("Authorization")
	}))
	t.Cleanup(receiver.Close)
	s := etcdtest.Start(t)
	c := config(t, s, "edge-1")
	c.CredentialsDir = dir
	logged := recordLog(t, &c)
	for _, file := range []string{"receiver", filepath.Base(files.Key), filepath.Base(files.Cert)} {
		document := fmt.Sprintf("url: %s/%s\ncredential: file:%s\nevery: 20ms", receiver.URL, file, file)
		if _, err := s.Client(t).Put(t.Context(), node.Prefix+"sinks/"+strings.ReplaceAll(file, ".", "-"), document); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := start(t, func(ctx context.Context, started func(node.Running)) error {
		return node.RunEntry(ctx, node.EntryConfig{Config: c, TLS: peertls.CertificateFiles{Cert: files.Cert, Key: files.Key}}, started)
	})
	client := &http.Client{Timeout: testkit.Timeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, DisableKeepAlives: true}}
	answer, err := client.Post("https://"+r.Address+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"x"}`)) // refused: one event
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	select {
	case got := <-authorized:
		if got != "/receiver Bearer secret" {
			t.Errorf("the receiver got %q", got)
		}
	case <-time.After(testkit.Timeout):
		t.Fatal("no event has arrived: ", page(t, r, "/debug/config"))
	}
	testkit.WaitFor(t, "both sinks with files of the node", func() bool {
		return strings.Count(logged.String(), "it is a file of this node") == 2
	})
}

// A flag that cannot be used is a problem of its sink: the node logs at its start what is wrong and what to do, shows it as for a document, serves,
// and sends to the other sinks.
func TestNodeServesWithSinkFlagsThatCannotBeUsed(t *testing.T) {
	good := filepath.Join(t.TempDir(), "e.jsonl")
	var log testkit.SyncBuffer
	c := node.ServeConfig{Config: node.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Sinks: []string{
		"fil:/x?every=20ms", "file:" + good + "?every=20ms&name=good", "fil:/x", "kafka://b:9092/t", "file:/b?name=good", "http://c/hidden?auth=basic&name=teapot", "https://u:hidden@c/in", "otlp://c/x?name=a/b",
		"http://c/x?name=unset&credential=env:COLONNADE_NOT_SET",
	}}}
	p := startPlace(t, c)
	p.request(t)
	testkit.WaitFor(t, "an event at the sink that is well", func() bool { return lines(good) == 1 })
	want := map[string]string{ // by the names of sinks
		"fil:/x":          `flag -sink: sink "fil:/x": unknown scheme "fil": use one of file, unix`,
		"fil:/x (3)":      `unknown scheme "fil"`,
		"kafka-b-9092-t":  "flag -sink: sink kafka-b-9092-t: nodes cannot open sinks of the scheme kafka, whose client is large: run `colonnade ship -data-dir " + p.data,
		"good (5)":        "flag -sink: two sinks have the name good: give one of them another by the setting name=",
		"teapot":          `flag -sink: sink "http://c/…": auth=basic: there is no credential: add credential=env:NAME`,
		"https://…@c/…":   `has a password, which logs and lists of processes would show: use credential=env:NAME`,
		"otlp-c-b3d1db31": "name=a/b: must be letters",
	}
	testkit.WaitFor(t, "the sinks", func() bool { return len(p.config(t).Sinks) == len(want)+2 })
	for _, s := range p.config(t).Sinks {
		if text, broken := want[s.Name]; broken != (s.Problem != "") || !strings.Contains(s.Problem, text) {
			t.Errorf("%s: the problem %q, want %q", s.Name, s.Problem, text)
		}
		if s.Problem != "" && !strings.Contains(log.String(), fmt.Sprintf("sink=%s ", logged(s.Name))) {
			t.Errorf("the log lacks the sink %s", s.Name)
		}
	}
	testkit.WaitFor(t, "the metrics", func() bool {
		_, text := testkit.Get("http://" + p.running.Admin + "/metrics")
		return strings.Contains(text, fmt.Sprintf(`colonnade_problems{kind="sink_closed",severity="error"} %d`, len(want))) &&
			strings.Contains(text, `colonnade_problems{kind="sink_failing",severity="warning"} 1`)
	})
	_, text := testkit.Get("http://" + p.running.Admin + "/debug/config")
	if strings.Contains(log.String()+text, "hidden") {
		t.Errorf("a password or a token stands in the log or in\n%s", text)
	}
	if n := strings.Count(log.String(), "cannot open sink; its events are kept"); n != len(want) {
		t.Errorf("%d lines about sinks that cannot be opened, want %d:\n%s", n, len(want), log.String())
	}
}

// logged returns a value as the log has it.
func logged(value string) string {
	if strings.Contains(value, " ") {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// Without a data directory, no event could ever be sent.
func TestSinkFlagNeedsDataDirectory(t *testing.T) {
	c := node.ServeConfig{Config: node.Config{Sinks: []string{"file:/a"}, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}, Engines: []string{"http://127.0.0.1:1"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := node.RunServe(ctx, c, func(node.Running) { t.Error("it serves"); cancel() }); err == nil || !strings.Contains(err.Error(), "set -data-dir") {
		t.Error(err)
	}
}
