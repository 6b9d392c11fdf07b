package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestCancelAllEndsRequests(t *testing.T) {
	f, cause := newInflight(t), errors.New("drained")
	var requests []*Request
	for range 5 {
		requests = append(requests, f.Begin())
	}
	for _, i := range []int{4, 1, 0} { // first of the list, in the middle, and last
		if !requests[i].Close() || requests[i].Close() {
			t.Errorf("request %d: the first Close removes it, and no other", i)
		}
	}
	if n := f.Count(); n != 2 {
		t.Errorf("%d in flight, want 2", n)
	}
	f.CancelAll(cause)
	f.CancelAll(errors.New("another"))
	requests = append(requests, f.Begin())
	for i, want := range []error{context.Canceled, context.Canceled, cause, cause, context.Canceled, cause} {
		if got := context.Cause(requests[i].Context); got != want || requests[i].Context.Err() != context.Canceled {
			t.Errorf("request %d ended with %v (%v), want %v", i, got, requests[i].Context.Err(), want)
		}
		requests[i].Close()
	}
	if n := f.Count(); n != 0 {
		t.Errorf("%d in flight at the end", n)
	}
}

func TestRequestsEndWhileAllAreCancelled(t *testing.T) {
	for range 200 {
		f := newInflight(t)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				r := f.Begin()
				within, cancel := context.WithTimeout(r.Context, time.Minute)
				defer cancel()
				r.Cancel(nil)
				<-within.Done()
				r.Close()
			})
		}
		all.Go(func() { f.CancelAll(nil) })
		all.Wait()
	}
}

func BenchmarkBegin(b *testing.B) {
	f := newInflight(b)
	b.ReportAllocs()
	for b.Loop() {
		f.Begin().Close()
	}
}
