package balance_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"colonnade/balance"
)

func weightedPool(t *testing.T, weights ...int) *pool {
	list := engines(len(weights), 1000)
	for i, w := range weights {
		list[i].Weight = w
	}
	return newPool(t, balance.Config{Policy: balance.WeightedRoundRobin}, list)
}

// turns grants n requests, and returns the endpoints as letters.
func (p *pool) turns(n int, barred []bool) string {
	var b strings.Builder
	for range n {
		c := p.Choose(0, &balance.Request{}, barred)
		if c.At == balance.None {
			b.WriteByte('-')
			continue
		}
		if c.Prefers != balance.None || c.Why != balance.Turn {
			p.t.Errorf("got %s", text(c))
		}
		p.take(c.At, &balance.Request{})
		b.WriteByte('a' + byte(c.At))
	}
	return b.String()
}

func TestWeightedTurns(t *testing.T) {
	f := func(want string, weights ...int) {
		t.Helper()
		if got := weightedPool(t, weights...).turns(len(want), nil); got != want {
			t.Errorf("with the weights %v: %s, want %s", weights, got, want)
		}
	}
	f("aabacaaaabacaa", 5, 1, 1)
	f("abcabc", 1, 1, 1)
	f("abab", 7, 7)
	f("abaaba", 2, 1)
	f("aaa", 3)
	f("--")
}

// A choice that is not granted, and a grant without a choice, leave the turn where it is.
func TestWeightedTurnsOfGrantsOnly(t *testing.T) {
	p := weightedPool(t, 5, 1, 1)
	var got strings.Builder
	for range 14 {
		p.turn(t, &got)
	}
	if want := "aabacaaaabacaa"; got.String() != want {
		t.Errorf("got %s, want %s", got.String(), want)
	}
}

func (p *pool) turn(t *testing.T, got *strings.Builder) {
	t.Helper()
	for range 3 {
		p.Choose(0, &balance.Request{}, []bool{true, false, false})
	}
	p.take(0, &balance.Request{})
	p.release(0, &balance.Request{})
	first := p.Choose(0, &balance.Request{}, nil)
	if again := p.Choose(0, &balance.Request{}, nil); again != first {
		t.Errorf("the second choice is %s, the first was %s", text(again), text(first))
	}
	p.take(first.At, &balance.Request{})
	got.WriteByte('a' + byte(first.At))
}

// An endpoint that was full, or that requests avoided, is not owed the turns that it missed.
func TestWeightedTurnsAfterAnAbsence(t *testing.T) {
	p := weightedPool(t, 1, 1, 2)
	if got := p.turns(60, []bool{false, false, true}); strings.Count(got, "a") != 30 || strings.Contains(got, "c") {
		t.Errorf("without c: %s", got)
	}
	p.full(0)
	p.turns(60, nil)
	p.update(0, balance.State{Free: 1000, Up: true})
	if got := p.turns(8, nil); strings.Count(got, "a") != 2 || strings.Count(got, "b") != 2 || strings.Count(got, "c") != 4 {
		t.Errorf("then with all: %s", got)
	}
}

// The turn stays where it is when the endpoints are set anew.
func TestWeightedTurnsOverChanges(t *testing.T) {
	p := weightedPool(t, 5, 1, 1)
	got := p.turns(2, nil)
	for range 12 {
		p.set(p.list)
		got += p.turns(1, nil)
	}
	if want := "aabacaaaabacaa"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// With any weights, each endpoint has its share of every prefix of the grants, give or take less than the number of endpoints.
func TestWeightedShares(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		weights := make([]int, 1+r.IntN(8))
		sum := 0
		for i := range weights {
			weights[i] = 1 + r.IntN(20)
			sum += weights[i]
		}
		got := weightedPool(t, weights...).turns(2*sum, nil)
		for i, w := range weights {
			for n := range got {
				count := strings.Count(got[:n], string(rune('a'+i)))
				if exact := float64(n*w) / float64(sum); float64(count) > exact+float64(len(weights)) || float64(count) < exact-float64(len(weights)) {
					t.Fatalf("with the weights %v, %c has %d of %d turns", weights, 'a'+i, count, n)
				}
			}
			if count := strings.Count(got, string(rune('a'+i))); count != 2*w {
				t.Errorf("with the weights %v, %c has %d turns of %d", weights, 'a'+i, count, len(got))
			}
		}
	}
}
