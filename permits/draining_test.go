package permits_test

import (
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

func draining(e permits.Endpoint) permits.Endpoint {
	e.Draining = true
	return e
}

// A draining endpoint gets no permit, keeps those that are held, and adds nothing to what the pool says it can do.
func TestDrainingEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := fleet(2, 1)
		p := newPool(t, config(), es...)
		first, second := take(t, p, patient("a")), take(t, p, patient("a"))
		waiting := start(t.Context(), p, patient("b"))
		synctest.Wait()
		p.SetEndpoints([]permits.Endpoint{draining(es[0]), es[1]})
		if l := p.Load(); l.Limit != 1 || l.Held != 2 || l.Free != 0 || l.Queued != 1 {
			t.Errorf("%+v with one endpoint of two draining", l)
		}
		if s := p.Stats(); !s.Endpoints[0].Draining || s.Endpoints[0].Held != 1 || s.Endpoints[1].Draining {
			t.Errorf("%+v", s.Endpoints)
		}
		onDraining, other := first, second
		if first.Endpoint() != "e0" {
			onDraining, other = second, first
		}
		onDraining.Release()
		synctest.Wait()
		if l := p.Load(); l.Held != 1 || l.Queued != 1 {
			t.Errorf("%+v after a slot of the draining endpoint was released", l)
		}
		other.Release()
		r := <-waiting
		if r.err != nil || r.permit.Endpoint() != "e1" {
			t.Fatalf("the waiting request got %+v", r)
		}
		p.SetEndpoints(es)
		back := take(t, p, permits.Request{Account: "c"})
		if back.Endpoint() != "e0" {
			t.Errorf("after the drain, a permit on %s", back.Endpoint())
		}
		back.Release()
		r.permit.Release()
	})
}

// No request waits for draining endpoints alone: it could be served elsewhere meanwhile.
func TestNoRequestWaitsForDrainingEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fleet(1, 1)[0]
		p := newPool(t, config(), e)
		held := take(t, p, patient("a"))
		waiting := start(t.Context(), p, patient("a"))
		synctest.Wait()
		p.SetEndpoints([]permits.Endpoint{draining(e)})
		wantRefusal(t, (<-waiting).err, permits.NoEndpoint)
		refuse(t, p, patient("a"), permits.NoEndpoint)
		if s := p.Stats(); s.Held != 1 || s.Limit != 0 {
			t.Errorf("%+v", s)
		}
		p.SetEndpoints([]permits.Endpoint{e})
		waiting = start(t.Context(), p, patient("a"))
		time.Sleep(time.Second)
		held.Release()
		r := <-waiting
		if r.err != nil {
			t.Fatal(r.err)
		}
		r.permit.Release()
	})
}
