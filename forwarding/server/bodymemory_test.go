package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// wakeConn counts the deadlines that are set for its reads.
type wakeConn struct {
	net.Conn
	woken int
}

func (c *wakeConn) SetReadDeadline(time.Time) error {
	c.woken++
	return nil
}

// memoryTest is memory of 64 units for bodies of at most 16.
type memoryTest struct {
	t testing.TB
	*bodyMemory
}

const unit, largestBody = minBuffer, 16 * minBuffer

func newMemoryTest(t testing.TB) memoryTest {
	return memoryTest{t, &bodyMemory{size: 64 * unit}}
}

// add counts a body, which must fit unless a text of the refusal is given.
func (m memoryTest) add(account string, units int, refusal string) *unfinishedBody {
	m.t.Helper()
	b := &unfinishedBody{key: holderKey{account: account}, conn: &wakeConn{}}
	err := m.reserve(b, units*unit, largestBody)
	switch {
	case (err == nil) != (refusal == ""):
		m.t.Fatalf("%d units of %s: %v, want %q", units, account, err, refusal)
	case err != nil && !strings.Contains(err.Error(), refusal):
		m.t.Errorf("%d units of %s: refused with %q, want %q", units, account, err, refusal)
	}
	return b
}

func (m memoryTest) expectEvicted(want bool, all ...*unfinishedBody) {
	m.t.Helper()
	for n, b := range all {
		if got := b.evicted.Load(); got != want || (b.conn.(*wakeConn).woken > 0) != want {
			m.t.Errorf("body %d of %s: evicted %v", n, b.key.account, got)
		}
	}
}

// An account has half of the memory, and only its own bodies are refused for it.
func TestBodyMemoryOfOneAccount(t *testing.T) {
	m := newMemoryTest(t)
	kept := []*unfinishedBody{m.add("a", 16, ""), m.add("a", 16, "")}
	m.add("a", 1, "as they may")
	kept = append(kept, m.add("b", 16, ""))
	m.expectEvicted(false, kept...)
	for _, b := range kept {
		if err := m.end(b); err != nil {
			t.Error(err)
		}
	}
	if m.total != 0 || len(m.holders) != 0 {
		t.Errorf("%d bytes of %d accounts at the end", m.total, len(m.holders))
	}
}

// While the memory is exhausted, an account that holds less gets it from the account that holds most: from the body that has held most
// for longest. An account that would hold as much itself is refused.
func TestBodiesAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryTest(t)
		oldSmall, oldLarge := m.add("a", 1, ""), m.add("a", 15, "")
		time.Sleep(time.Second)
		fresh := m.add("a", 16, "")
		other := m.add("b", 16, "")
		other2 := m.add("b", 15, "")
		time.Sleep(time.Second)
		last := m.add("c", 1, "") // fills it
		m.expectEvicted(false, oldSmall, oldLarge, fresh, other, other2, last)

		m.add("c", 1, "")
		m.expectEvicted(true, oldLarge)
		m.expectEvicted(false, oldSmall, fresh, other, other2, last)
		if err := m.end(oldLarge); err == nil || !strings.Contains(err.Error(), "took more memory") {
			t.Errorf("the evicted body: %v", err)
		}
		if err := m.reserve(oldLarge, unit, largestBody); err == nil {
			t.Error("an evicted body gets memory")
		}
		m.add("d", 14, "") // fills it again: a has 17, b 31, c 2, d 14
		m.add("a", 14, "not less than others'")
		m.add("a", 13, "")
		m.expectEvicted(true, other)
		m.expectEvicted(false, oldSmall, fresh, other2, last)
	})
}

// A body that grows while another one waits to evict it may be evicted all the same.
func TestBodyGrowsBeforeItsEviction(t *testing.T) {
	m := newMemoryTest(t)
	full := []*unfinishedBody{m.add("a", 16, ""), m.add("a", 16, ""), m.add("b", 16, ""), m.add("b", 16, "")}
	m.mu.Lock()
	waiting := make(chan error, 1)
	go func() {
		b := &unfinishedBody{key: holderKey{account: "c"}, conn: &wakeConn{}}
		waiting <- m.reserve(b, unit, largestBody)
	}()
	time.Sleep(5 * time.Millisecond) // it waits for the lock, as a rule
	for _, b := range full {
		b.grown = time.Now()
	}
	m.mu.Unlock()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// Whatever clients do: the memory and each account's half are kept, and an account within its fair share is not refused.
func TestBodyMemoryAtRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	m := newMemoryTest(t)
	accounts := []string{"a", "b", "c", "d", "e"}
	open := map[*unfinishedBody]bool{}
	for range 20_000 {
		if rnd.IntN(3) == 0 {
			for b := range open {
				_ = m.end(b)
				delete(open, b)
				break
			}
			continue
		}
		key := holderKey{account: accounts[rnd.IntN(1+rnd.IntN(len(accounts)))]}
		b, n := &unfinishedBody{key: key, conn: &wakeConn{}}, (1+rnd.IntN(16))*unit
		held := int64(0)
		if h := m.holders[key]; h != nil {
			held = h.bytes
		}
		err := m.reserve(b, n, largestBody)
		if fair := m.size / int64(len(accounts)); err != nil && held+int64(n) <= fair {
			t.Fatalf("an account with %d bytes was refused %d more, and %d are its fair share: %v", held, n, fair, err)
		}
		open[b] = err == nil
		m.check()
	}
}

func (m memoryTest) check() {
	m.t.Helper()
	var total int64
	for key, h := range m.holders {
		var bytes int64
		for n, b := range h.bodies {
			bytes += b.bytes
			if b.holder != h || b.index != n || b.evicted.Load() {
				m.t.Fatalf("body %d of %s is in the wrong place", n, key.account)
			}
		}
		if bytes != h.bytes || bytes > m.perHolder(largestBody) || m.largest[h.index] != h || h.bytes > m.largest[0].bytes {
			m.t.Fatalf("%s holds %d bytes, counted as %d", key.account, bytes, h.bytes)
		}
		total += bytes
	}
	if total != m.total || total > m.whole(largestBody) || len(m.holders) != len(m.largest) {
		m.t.Fatalf("%d bytes, counted as %d", total, m.total)
	}
}

// A reader that waits for its client notices at once that its body was evicted.
func TestEvictedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		m := newMemoryTest(t)
		in := bodyReader{conn: server, stream: server, length: largestBody, limit: largestBody, memory: m.bodyMemory}
		in.share.conn, in.share.key.account = server, "a"
		go func() { _, _ = client.Write(make([]byte, largestBody-1)) }()
		time.AfterFunc(time.Second, func() {
			for n := range 4 {
				m.add(fmt.Sprint("b", n), 13, "")
			}
		})
		began := time.Now()
		err := in.readAll(t.Context())
		if took := time.Since(began); took != time.Second || !isRefusal(err) {
			t.Errorf("after %v: %v", took, err)
		}
		if e := bodyError(err, largestBody); e.Status != 503 || e.RetryAfter < time.Second || !strings.Contains(e.Message, "this account") {
			t.Errorf("refused with %+v", e)
		}
	})
}

// The time to come back follows the memory that came free lately, and is that of a body without progress while none did.
func TestTimeForBodyMemory(t *testing.T) {
	now := time.Now()
	f := func(name string, r freedRate, at time.Time, want time.Duration) {
		t.Helper()
		if got := r.timeFor(1<<20, at); got < want || got > want+want/4 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	f("unknown", freedRate{}, now, progressWindow)
	r := freedRate{}
	r.add(4<<20, now)
	f("256 KiB/s", r, now.Add(16*time.Second), 4*time.Second)
	f("fast", r, now.Add(time.Second), time.Second)
	f("long ago", r, now.Add(time.Minute), progressWindow)
}

// BenchmarkBodyMemory measures what a body of 20 KB costs beside its reading, alone and beside a thousand others.
func BenchmarkBodyMemory(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprint("others=", others), func(b *testing.B) {
			m := &bodyMemory{size: DefaultBodyMemory}
			for n := range others {
				_ = m.reserve(&unfinishedBody{key: holderKey{account: fmt.Sprint(n)}}, minBuffer, largestBody)
			}
			b.ReportAllocs()
			for b.Loop() {
				body := unfinishedBody{key: holderKey{account: "a"}}
				m.holds(&body)
				if m.reserve(&body, minBuffer, largestBody) != nil || m.end(&body) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}
