package balance

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"colonnade/balance"
)

// one runs a traffic at a speed relative to its own.
func one(t *testing.T, traffic *Traffic, speed float64, policy balance.Config, oracle bool) (f Figures) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		f = Simulate(Config{Policy: policy, Oracle: oracle, Traffic: traffic, Endpoints: 8, Timing: DefaultTiming(), Speed: speed})
	})
	return f
}

func first(t *Traffic, n int) *Traffic {
	short := *t
	short.Requests = t.Requests[:n]
	return &short
}

// The oracle finds more in the caches than the least loaded endpoint has, a run depends on nothing but its seed, and slots are never exceeded.
func TestOracleFindsMore(t *testing.T) {
	traffic, err := Mooncake(1)
	if err != nil {
		t.Fatal(err)
	}
	traffic = first(traffic, 600)
	least := one(t, traffic, 1, balance.Config{}, false)
	oracle := one(t, traffic, 1, balance.Config{Policy: balance.PrefixAffinity, LoadFactor: 1.25}, true)
	if again := one(t, traffic, 1, balance.Config{}, false); again.Hits != least.Hits || again.TTFT99 != least.TTFT99 {
		t.Errorf("the same run found %+v, then %+v", least, again)
	}
	if oracle.Hits < 1.2*least.Hits || oracle.PeakOver != 0 || least.PeakOver != 0 {
		t.Errorf("the oracle found %+v, and least loaded %+v", oracle, least)
	}
}

// With more load than the engines can serve, accounts wait, and get equal shares.
func TestBacklogIsShared(t *testing.T) {
	f := one(t, Chats(1, 40, 1500), 1, balance.Config{}, false)
	if f.Jain < 0.98 || f.Refused == 0 {
		t.Errorf("in overload: %+v", f)
	}
}

// Of Zipf's law with the exponent 1.1 below 1024, a sixth are 1, and the mean is about 102.
func TestLengthsOfBursts(t *testing.T) {
	const n = 100_000
	random, lengths := rand.New(rand.NewPCG(1, 1)), newZipf(burstExponent, burstLength)
	sum, ones := 0, 0
	for range n {
		length := lengths.draw(random)
		if length < 1 || length >= burstLength {
			t.Fatalf("a length of %d", length)
		}
		if sum += length; length == 1 {
			ones++
		}
	}
	if mean, share := float64(sum)/n, float64(ones)/n; mean < 98 || mean > 106 || share < 0.17 || share > 0.19 {
		t.Errorf("mean %.1f, share of ones %.3f", mean, share)
	}
}

// 500 adapters over 20 engines that have room for 32 each: nearly every request finds its adapter in memory by adapter_affinity, and a third
// by least load.
func TestAdaptersAreFound(t *testing.T) {
	w := AdapterWorkload(1)
	w.Traffic = first(w.Traffic, 4000)
	loaded := map[string]float64{}
	for _, c := range AdapterContestants() {
		f := simulate(t, w.At(0.75, &c))
		if loaded[c.Name] = f.Loaded; f.PeakOver != 0 {
			t.Errorf("%s: %d requests beyond the slots", c.Name, f.PeakOver)
		}
	}
	if loaded["adapter_affinity"] < 0.9 || loaded["least_loaded"] > 0.5 {
		t.Errorf("shares of requests whose adapter was in memory: %v", loaded)
	}
}

// The product's chain of a prompt is that of any prompt with the same beginning, and covers all of it that the engine could have.
func TestBlocksOfPrompts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	short := extend(nil, 4000, random)
	long := extend(short, 9000, random)
	var text text
	ofShort, bytes := text.blocks(short, chatBlock)
	ofLong, _ := text.blocks(long, chatBlock)
	if n := len(ofShort); n == 0 || len(ofLong) <= n || !slices.Equal(ofLong[:n], ofShort) {
		t.Errorf("%d blocks of the beginning, %d of the whole", n, len(ofLong))
	}
	if tokens := len(short) * chatBlock; bytes < 3*tokens || bytes > 5*tokens {
		t.Errorf("%d tokens have %d bytes", tokens, bytes)
	}
}
