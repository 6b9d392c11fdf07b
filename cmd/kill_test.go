package cmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/oracle"
	"colonnade/internal/testkit"
)

// killPrompt must reach engines only.
const killPrompt = "canary that sits in a prompt"

// sentRequest is the result of a request.
type sentRequest struct {
	status int    // 0: no response
	whole  bool   // a 200 that is complete
	text   string // of any other response
}

// clients send requests over connections of their own until they are stopped.
type clients struct {
	url  string
	stop chan struct{}
	all  sync.WaitGroup

	mu   sync.Mutex // guards the field below
	sent map[string]sentRequest
}

func startClients(address string, n int) *clients {
	c := &clients{url: "http://" + address + "/v1/chat/completions", stop: make(chan struct{}), sent: map[string]sentRequest{}}
	for worker := range n {
		c.all.Go(func() { c.send(worker) })
	}
	return c
}

func (c *clients) send(worker int) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: testkit.Timeout}
	defer client.CloseIdleConnections()
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		default:
		}
		id := fmt.Sprintf("kill-%d-%d", worker, i)
		seen := c.one(client, id, i%2 == 0)
		c.mu.Lock()
		c.sent[id] = seen
		c.mu.Unlock()
		if seen.status == 0 {
			time.Sleep(20 * time.Millisecond) // the entry is being restarted
		}
	}
}

func (c *clients) one(client *http.Client, id string, stream bool) (seen sentRequest) {
	body := fmt.Sprintf(`{"model":"tiny","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, stream, 1+rand.IntN(20), killPrompt)
	r, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return seen
	}
	r.GetBody = nil // so that it is never sent again
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+testKey)
	r.Header.Set("X-Request-Id", id)
	answer, err := client.Do(r)
	if err != nil {
		return seen
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	seen.status = answer.StatusCode
	seen.whole = err == nil && seen.status == http.StatusOK &&
		(stream && bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) || !stream && json.Valid(text))
	if !seen.whole {
		seen.text = fmt.Sprintf("%s (%v)", text, err)
	}
	return seen
}

// end stops the clients and returns their requests by id.
func (c *clients) end() map[string]sentRequest {
	close(c.stop)
	c.all.Wait()
	return c.sent
}

// answered counts the requests that have completed so far.
func (c *clients) answered() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range maps.Values(c.sent) {
		if s.whole {
			n++
		}
	}
	return n
}

// SIGKILL of entry and colo servers under load: each completed request has one final event at the entry, each permit has one,
// and the next process closes the open events of the one before.
func TestEventsSurviveSIGKILL(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	f := startFleet(t, layout{
		colos: []string{"ams", "fra"}, engines: 1, slots: 8,
		engine: []string{"-ttft", "2ms", "-itl", "2ms"}, node: []string{"-drain", "5s", "-debug"},
	})
	load := startClients(f.entry.address, 8)
	for range testkit.AtScale(20, 200) {
		before := load.answered()
		testkit.WaitFor(t, "requests to be answered", func() bool { return load.answered() > before })
		time.Sleep(time.Duration(dice.IntN(120)) * time.Millisecond)
		victim := f.entry
		if n := dice.IntN(4); n >= 2 {
			victim = f.colos[[]string{"ams", "fra"}[n-2]]
		}
		victim.restart()
	}
	f.ready(f.entry)
	for _, m := range f.colos {
		f.ready(m)
	}
	sent := load.end()
	f.leave()
	f.checkEvents(sent)
	f.checkNoCanary()
}

// leave stops the nodes, the entry first.
func (f *processes) leave() {
	f.t.Helper()
	for _, m := range append([]*member{f.entry}, slices.Collect(maps.Values(f.colos))...) {
		if err := m.Stop(syscall.SIGTERM); err != nil {
			f.t.Errorf("%s ended with %v", m.dir, err)
		}
	}
}

// eventDirs returns the data directories of all nodes.
func (f *processes) eventDirs() []string {
	dirs := []string{f.entry.dir}
	for m := range maps.Values(f.colos) {
		dirs = append(dirs, m.dir)
	}
	return dirs
}

// checkEvents compares the events of the nodes with the results of the clients.
func (f *processes) checkEvents(sent map[string]sentRequest) {
	f.t.Helper()
	events, err := oracle.ReadEvents(f.eventDirs()...)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, problem := range events.Problems(true, true) {
		f.t.Error(problem)
	}
	requests, served, outcomes := map[string][]analytics.Event{}, map[string]int{}, map[string]int{}
	for e := range maps.Values(events.Ends) {
		outcomes[string(e.Kind)+" "+string(e.Outcome)]++
		if _, known := sent[e.ClientRequestID]; !known {
			f.t.Errorf("a final event of an unknown request: %+v", e)
		}
		switch {
		case e.Kind == analytics.KindRequest:
			requests[e.ClientRequestID] = append(requests[e.ClientRequestID], e)
		case e.Outcome == analytics.OutcomeCompleted:
			served[e.ClientRequestID]++
		}
	}
	whole, cut := 0, 0
	for id, seen := range sent {
		finals := requests[id]
		switch {
		case seen.whole:
			whole++
			if len(finals) != 1 || finals[0].Outcome != analytics.OutcomeCompleted || served[id] == 0 {
				f.t.Errorf("%s completed, and has the final events %+v; completed permits: %d", id, finals, served[id])
			}
		case seen.status != 0 && seen.status != http.StatusOK && len(finals) != 1:
			f.t.Errorf("%s has the status %d and %d final events", id, seen.status, len(finals))
		case len(finals) > 1:
			f.t.Errorf("%s has the final events %+v", id, finals)
		}
		if !seen.whole && len(finals) == 1 {
			cut++
		}
	}
	f.t.Logf("%d requests, %d completed, %d others with a final event; outcomes: %v; repeated %d, torn %d", len(sent), whole, cut, outcomes, len(events.Repeated), events.Torn)
	if whole < 100 {
		f.t.Errorf("only %d requests completed: too little load", whole)
	}
}

// checkNoCanary looks for the prompt and the API key in the logs and files of the processes.
func (f *processes) checkNoCanary() {
	f.t.Helper()
	secret := testKey[strings.LastIndexByte(testKey, '_')+1:]
	check := func(where string, data []byte) {
		for _, text := range []string{killPrompt, secret} {
			if bytes.Contains(data, []byte(text)) {
				f.t.Errorf("%s has %q", where, text)
			}
		}
	}
	for _, m := range append([]*member{f.entry}, slices.Collect(maps.Values(f.colos))...) {
		check("the log of "+m.dir, []byte(m.Output()))
	}
	err := filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		check(path, data)
		return err
	})
	if err != nil {
		f.t.Error(err)
	}
}
