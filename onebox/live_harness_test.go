package onebox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// operator changes documents as etcdctl does: nobody checks them before they are in the store.
type operator struct {
	f      *testFleet
	client *clientv3.Client
}

func (f *testFleet) operator() *operator {
	f.t.Helper()
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = client.Close() })
	return &operator{f, client}
}

// put writes YAML documents, each with its key, in one transaction, and returns the revision that the store has then.
func (o *operator) put(documents string) int64 {
	o.f.t.Helper()
	docs, err := fleet.SplitFile([]byte(documents))
	if err != nil {
		o.f.t.Fatal(err)
	}
	var ops []clientv3.Op
	for _, d := range docs {
		ops = append(ops, clientv3.OpPut(node.Prefix+d.Key, string(d.Value)))
	}
	return o.do(ops...)
}

// remove deletes documents, in one transaction.
func (o *operator) remove(keys ...string) {
	o.f.t.Helper()
	var ops []clientv3.Op
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete(node.Prefix+key))
	}
	o.do(ops...)
}

func (o *operator) get(key string, options ...clientv3.OpOption) *clientv3.GetResponse {
	o.f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := o.client.Get(ctx, key, options...)
	if err != nil {
		o.f.t.Fatalf("etcd does not answer: %v", err)
	}
	return answer
}

// do returns the revision that the store has afterwards.
func (o *operator) do(ops ...clientv3.Op) int64 {
	o.f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := o.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		o.f.t.Fatalf("etcd does not take a change: %v", err)
	}
	return answer.Header.Revision
}

// page is what a node shows of its table.
type page struct {
	Revision      int64
	Documents     map[string]tree
	Rejected      []rejection
	Conflicts     []map[string]string
	Held, Suspect []string
}

type rejection struct {
	Key      string
	LastGood bool `json:"last_good"`
}

// of returns a field of a document, by its path; nil if it is not there.
func (p page) of(key string, path ...string) any {
	var at any = p.Documents[key]
	if doc, ok := p.Documents[key]; !ok || doc == nil {
		return nil
	}
	for _, name := range path {
		fields, _ := at.(map[string]any)
		at = fields[name]
	}
	return at
}

// admins returns the admin listeners of all nodes, by node.
func (f *testFleet) admins() map[string]string {
	all := map[string]string{f.Entry.Node: f.Entry.Admin}
	for _, n := range f.Colos {
		all[n.Node] = n.Admin
	}
	return all
}

func (f *testFleet) page(admin string) page {
	f.t.Helper()
	r, err := f.client.Get("http://" + admin + "/debug/fleet")
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Body.Close()
	var p page
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		f.t.Fatal(err)
	}
	return p
}

// everywhere waits until a condition holds at every node, which must be so within a second.
func (f *testFleet) everywhere(what string, holds func(node string, p page) bool) {
	f.t.Helper()
	began := time.Now()
	for _, name := range slices.Sorted(maps.Keys(f.admins())) {
		testkit.Within(f.t, time.Second, what+" at "+name, func() bool { return holds(name, f.page(f.admins()[name])) })
	}
	f.t.Logf("%s: everywhere after %v", what, time.Since(began).Round(time.Millisecond))
}

// soon waits until a condition holds that shows that a change is in force, which must be so within a second.
func (f *testFleet) soon(what string, holds func() bool) {
	f.t.Helper()
	began := time.Now()
	testkit.Within(f.t, time.Second, what, holds)
	f.t.Logf("%s: after %v", what, time.Since(began).Round(time.Millisecond))
}

// traffic is clients that mind every answer: each is to be served in full.
type traffic struct {
	f        *testFleet
	all      sync.WaitGroup
	stopping atomic.Bool
	served   atomic.Int64

	mu  sync.Mutex // guards the field below
	bad map[string]int
}

// drive sets clients going, each with one request after another. Beside being served, they may be told these statuses.
func (f *testFleet) drive(clients int, body func(n int) string, mayBe ...int) *traffic {
	c := &traffic{f: f, bad: map[string]int{}}
	for client := range clients {
		c.all.Go(func() {
			for n := client; !c.stopping.Load(); n++ {
				c.once(body(n), mayBe)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	f.t.Cleanup(c.stop)
	return c
}

func (c *traffic) once(body string, mayBe []int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := c.f.post(ctx, "/chat/completions", body)
	switch {
	case err != nil:
		c.note(err.Error())
	case slices.Contains(mayBe, a.Status):
	case a.Status != http.StatusOK || a.Err != nil || !a.whole():
		end := a.Body[max(0, len(a.Body)-200):]
		if reason := a.Header.Get("x-colonnade-reason"); reason != "" {
			end = reason
		}
		c.note(fmt.Sprintf("%d %v, of %.40s: %q", a.Status, a.Err, body, end))
	default:
		c.served.Add(1)
	}
}

func (c *traffic) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad[what]++
}

// whole says whether an answer has its API's proper end.
func (a answer) whole() bool {
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		return strings.HasSuffix(a.Body, "data: [DONE]\n\n") && !strings.Contains(a.Body, `"error"`)
	}
	return json.Valid([]byte(a.Body))
}

func (c *traffic) stop() {
	c.stopping.Store(true)
	c.all.Wait()
}

// check ends the traffic and expects that everybody was served.
func (c *traffic) check() {
	c.f.t.Helper()
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f.t.Logf("%d requests were served", c.served.Load())
	if c.served.Load() == 0 {
		c.f.t.Error("no request was served")
	}
	for what, times := range c.bad {
		c.f.t.Errorf("%d times: %s", times, what)
	}
}

// mixed are plain requests and streams by turns.
func mixed(model string) func(n int) string {
	return func(n int) string {
		return fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":%d,"messages":[]}`, model, n%2 == 0, 1+n%12)
	}
}

// longStream begins a stream that its engine takes a while for, and has read its first token.
func (f *testFleet) longStream(model string, headers ...string) *wire {
	f.t.Helper()
	w := f.begin(fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":200,"messages":[]}`, model), headers...)
	if _, err := w.br.Peek(1); err != nil {
		f.t.Fatal(err)
	}
	return w
}

// endsWell reads a stream to its end, which must be the proper one.
func (w *wire) endsWell() {
	w.t.Helper()
	if a := w.read(); a.Status != 200 || a.Err != nil || !a.whole() {
		w.t.Errorf("a stream ended with %d %v %.300q", a.Status, a.Err, a.Body[max(0, len(a.Body)-300):])
	}
}

// metric returns the value of a metric without labels at a node.
func (f *testFleet) metric(admin, name string) (value float64) {
	f.t.Helper()
	r, err := f.client.Get("http://" + admin + "/metrics")
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			if _, err := fmt.Sscan(string(rest), &value); err == nil {
				return value
			}
		}
	}
	f.t.Fatalf("no metric %s", name)
	return 0
}
