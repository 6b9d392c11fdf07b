package hop_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

const testIssuer = "AAAABBBBCCCCDDDD"

// numbered returns a token of an issuer for the process "boot".
func numbered(issuer string, n uint64, issued time.Time) *hop.Token {
	return &hop.Token{Boot: "boot", Issuer: issuer, Number: n, Issued: issued.Unix()}
}

// claim checks and claims a token, and expects both to agree.
func claim(t *testing.T, g *hop.ReplayGuard, token *hop.Token, now time.Time) error {
	t.Helper()
	check := g.Check(token)
	if err := g.Claim(token, now); err != nil || check != nil {
		if fmt.Sprint(check) != fmt.Sprint(err) {
			t.Errorf("number %d of %s: Check = %v, Claim = %v", token.Number, token.Issuer, check, err)
		}
		return err
	}
	return nil
}

// A guard agrees with a set of all tokens that were used, for tokens in any order that are within its window.
func TestTokenIsGoodOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	g := hop.NewReplayGuard("boot")
	used := map[uint64]bool{}
	next := uint64(1)
	for range testkit.AtScale(50_000, 1_000_000) {
		switch random.IntN(1000) {
		case 0:
			next += random.Uint64N(100_000) // more than the window
		default:
			next += random.Uint64N(3)
		}
		n := next - min(next-1, random.Uint64N(1+random.Uint64N(65_000)))
		err := claim(t, g, numbered(testIssuer, n, testTime), testTime)
		if used[n] != errors.Is(err, hop.ErrReplayed) || err != nil && !used[n] {
			t.Fatalf("number %d of %d, used %v: %v", n, next, used[n], err)
		}
		used[n] = true
	}
}

// Numbers below the window are refused, whether they were used or not, so that their sender signs again.
func TestOvertakenToken(t *testing.T) {
	g := hop.NewReplayGuard("boot")
	for _, c := range []struct {
		number uint64
		want   error
	}{
		{1 << 20, nil}, {1<<20 - 65_000, nil}, {1<<20 - 70_000, hop.ErrSignAgain}, {1, hop.ErrSignAgain}, {1 << 20, hop.ErrReplayed},
		{1<<64 - 1, nil}, {1<<64 - 1, hop.ErrReplayed}, {1<<64 - 2, nil}, {1<<20 + 1, hop.ErrSignAgain},
	} {
		if err := claim(t, g, numbered(testIssuer, c.number, testTime), testTime); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("number %d: %v, want %v", c.number, err, c.want)
		}
	}
}

// Of many copies of a token that arrive at once, one is served.
func TestOneOfManyCopiesIsGood(t *testing.T) {
	g := hop.NewReplayGuard("boot")
	for n := range uint64(50) {
		var served atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if g.Claim(numbered(testIssuer, n+1, testTime), testTime) == nil {
					served.Add(1)
				}
			})
		}
		all.Wait()
		if served.Load() != 1 {
			t.Fatalf("%d of 50 copies were served", served.Load())
		}
	}
}

// No token for an earlier process of the server is good, nor one without number or issuer.
func TestTokenForAnotherProcess(t *testing.T) {
	g := hop.NewReplayGuard("later")
	if err := claim(t, g, numbered(testIssuer, 1, testTime), testTime); !errors.Is(err, hop.ErrSignAgain) {
		t.Errorf("for another process: %v", err)
	}
	for _, token := range []*hop.Token{{Boot: "later", Issuer: testIssuer}, {Boot: "later", Number: 1}, {Boot: "later", Issuer: "AB", Number: 1}} {
		if err := claim(t, g, token, testTime); !errors.Is(err, hop.ErrBadToken) || errors.Is(err, hop.ErrSignAgain) {
			t.Errorf("%+v: %v", token, err)
		}
	}
}

// An issuer is forgotten once all its used tokens have expired, and they are not good again even if the clock is set back.
func TestForgottenIssuer(t *testing.T) {
	g := hop.NewReplayGuard("boot")
	recorded := numbered(testIssuer, 7, testTime)
	other := "EEEEFFFFGGGGHHHH"
	later := testTime.Add(11 * time.Minute)
	for _, step := range []struct {
		token *hop.Token
		now   time.Time
		want  error
	}{
		{recorded, testTime, nil},
		{recorded, later, hop.ErrReplayed},
		{numbered(other, 1, later), later, nil}, // forgets the first
		{recorded, testTime.Add(time.Minute), hop.ErrSignAgain},
		{numbered(testIssuer, 9, later), later, nil}, // the same issuer again, after a long time
		{recorded, testTime.Add(time.Minute), hop.ErrSignAgain},
		{numbered(testIssuer, 8, later), later, nil},
		{numbered(testIssuer, 8, later), later, hop.ErrReplayed},
	} {
		if err := claim(t, g, step.token, step.now); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("number %d of %s: %v, want %v", step.token.Number, step.token.Issuer, err, step.want)
		}
	}
}

// However many issuers there are, memory stays bounded, no token is good twice, and an entry that is sending is not disturbed.
func TestFloodOfIssuers(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	g := hop.NewReplayGuard("boot")
	var recorded []*hop.Token
	for i := range testkit.AtScale(3000, 20_000) {
		now := testTime.Add(time.Duration(i/100) * time.Second)
		token := numbered(fmt.Sprintf("%016d", i), 1+random.Uint64N(1e6), now)
		if err := claim(t, g, token, now); err != nil {
			t.Fatalf("issuer %d: %v", i, err)
		}
		recorded = append(recorded, token)
		if err := claim(t, g, numbered(testIssuer, uint64(i)+1, now), now); err != nil {
			t.Fatalf("the entry that is sending: %v", err)
		}
		again := recorded[random.IntN(len(recorded))]
		if err := claim(t, g, again, now); !errors.Is(err, hop.ErrReplayed) && !errors.Is(err, hop.ErrSignAgain) {
			t.Fatalf("issuer %s again: %v", again.Issuer, err)
		}
		if n := g.Issuers(); n > 2048 {
			t.Fatalf("%d issuers are kept", n)
		}
	}
}

func BenchmarkClaim(b *testing.B) {
	g, n := hop.NewReplayGuard("boot"), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		if err := g.Claim(numbered(testIssuer, n, testTime), testTime); err != nil {
			b.Fatal(err)
		}
	}
}
