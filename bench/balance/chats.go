package balance

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// These are the sizes of the generated chats.
const (
	chatBlock     = 64  // tokens
	chatTurns     = 5   // of a conversation, mean
	chatLength    = 250 // tokens of a turn of the user and of an answer, mean
	chatApps      = 6   // different system prompts
	chatSystem    = 800 // tokens of a system prompt
	chatThink     = 20 * time.Second
	burstLength   = 1024 // tokens of a turn or an answer of BurstGPT, less than
	burstExponent = 1.1  // of the Zipf distribution of these lengths
)

// Chats returns conversations of several turns that begin in bursts, and have so many requests a second in all. The prompt of a turn is the
// whole conversation before it. Lengths are exponentially distributed.
func Chats(seed uint64, rate float64, conversations int) *Traffic {
	return converse("chats", rand.New(rand.NewPCG(seed, 2)), rate, conversations, func(random *rand.Rand) int {
		return 1 + int(chatLength*random.ExpFloat64())
	})
}

// Bursts returns the same with the lengths of the generator of BurstGPT (github.com/HPMLL/BurstGPT, example/profile_server/server.py at
// e92f533): Zipf with the exponent 1.1. Its times between arrivals, of the gamma distribution with the shape 1/2, are those of Chats too.
// Conversations are ours, since the generator has none.
func Bursts(seed uint64, rate float64, conversations int) *Traffic {
	lengths := newZipf(burstExponent, burstLength)
	return converse("burstgpt", rand.New(rand.NewPCG(seed, 3)), rate, conversations, lengths.draw)
}

func converse(name string, random *rand.Rand, rate float64, conversations int, length func(*rand.Rand) int) *Traffic {
	t := &Traffic{Name: name, BlockTokens: chatBlock}
	apps := make([][]uint64, chatApps)
	for i := range apps {
		apps[i] = extend(nil, chatSystem, random)
	}
	popular := rand.NewZipf(random, 1.3, 1, chatApps-1)
	at := 0.0
	for range conversations {
		at += gamma(random) * chatTurns / rate
		t.add(time.Duration(at*float64(time.Second)), apps[popular.Uint64()], random, length)
	}
	slices.SortStableFunc(t.Requests, func(a, b Request) int { return int(a.At - b.At) })
	last := time.Duration(at * float64(time.Second))
	t.Requests = slices.DeleteFunc(t.Requests, func(r Request) bool { return r.At > last }) // the load falls from there on
	t.write()
	return t
}

// add adds the turns of a conversation.
func (t *Traffic) add(at time.Duration, system []uint64, random *rand.Rand, length func(*rand.Rand) int) {
	session, account := random.Uint64(), accountOf(random)
	chain, tokens := system, chatSystem
	for {
		ask, answer := length(random), length(random)
		tokens += ask
		chain = extend(chain, tokens, random)
		r := Request{At: at, Input: tokens, Output: answer, Chain: chain}
		r.join(account, session)
		t.Requests = append(t.Requests, r)
		if random.Float64() < 1.0/chatTurns {
			return
		}
		tokens += answer
		at += time.Duration(random.ExpFloat64() * float64(chatThink))
	}
}

// extend returns a chain that covers the full blocks of so many tokens, and begins with another.
func extend(chain []uint64, tokens int, random *rand.Rand) []uint64 {
	chain = slices.Clone(chain)
	for len(chain) < tokens/chatBlock {
		chain = append(chain, random.Uint64())
	}
	return chain
}

// zipf has the probabilities, added up, of 1, 2, 3 … by Zipf's law.
type zipf []float64

func newZipf(exponent float64, below int) zipf {
	z, sum := make(zipf, below-1), 0.0
	for i := range z {
		sum += math.Pow(float64(i+1), -exponent)
		z[i] = sum
	}
	return z
}

func (z zipf) draw(random *rand.Rand) int {
	at, _ := slices.BinarySearch(z, random.Float64()*z[len(z)-1])
	return at + 1
}

// gamma draws from the gamma distribution with the shape 1/2 and the mean 1, which is that of the square of a normal variable. It is
// burstier than a Poisson process.
func gamma(random *rand.Rand) float64 { return math.Pow(random.NormFloat64(), 2) }
