package capacity_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// Clients that begin large bodies on many connections and never end them take the memory of bodies: by two accounts, and without a key.
// All bodies of another account are served meanwhile. The others' are refused or cut off with a reason and a time to come back.
func TestBodiesThatNeverEnd(t *testing.T) {
	t.Parallel()
	documents := "key: defaults\nmodel: {max_body: 512KiB, timeouts: {connect: 30s}}\n"
	authorizations := []string{"x-none: a"}
	for _, account := range []string{"first", "second", "victim"} {
		document, authorization := fleettest.AccountWithKey(account, "")
		documents += document
		authorizations = append(authorizations, "Authorization: "+authorization)
	}
	attackers, victim := authorizations[:3], authorizations[3]
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(4), BodyMemory: 4 << 20}, documents)
	f.WatchShared(32)
	stop := make(chan struct{})
	var refused atomic.Int64
	var attack sync.WaitGroup
	for _, authorization := range attackers {
		for range 8 {
			attack.Go(func() { sendWithoutEnd(f, authorization, stop, &refused) })
		}
	}
	testkit.WaitFor(t, "the memory to be taken", func() bool { return refused.Load() >= 16 })
	for n := range testkit.AtScale(12, 20) {
		size := 20 << 10
		if n%4 == 0 {
			size = 500 << 10
		}
		body := strings.Replace(fleettest.ChatBody(1, false), "hello", strings.Repeat("a", size), 1)
		if a := f.RawChat(body, victim); a.Status != 200 || a.Err != nil {
			t.Errorf("a body of %d bytes: %d %v %.200q", size, a.Status, a.Err, a.Body)
		}
	}
	close(stop)
	attack.Wait()
}

// sendWithoutEnd begins a body again and again, and counts refusals.
func sendWithoutEnd(f *fleettest.Fleet, authorization string, stop <-chan struct{}, refused *atomic.Int64) {
	for {
		w := wiretest.Dial(f.T, f.Entry.Address)
		ended := make(chan struct{})
		var closing sync.WaitGroup
		closing.Go(func() {
			defer w.Close()
			select {
			case <-stop:
			case <-ended:
			}
		})
		_, _ = io.WriteString(w, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n", authorization, 512<<10))
		_, _ = io.WriteString(w, strings.Repeat("x", 350<<10)) // or what is accepted
		a := w.Read()
		close(ended)
		closing.Wait()
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if e := a.APIError(f.T); a.Status != 503 || e.Reason != "body_memory_exhausted" || a.Header.Get("Retry-After") == "" || a.Header.Get("Connection") != "close" {
			f.T.Errorf("a body without end: %d %v %+v", a.Status, a.Err, a.Header)
			return
		}
		refused.Add(1)
	}
}
