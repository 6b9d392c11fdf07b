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
	chatAsk       = 250 // tokens of a turn of the user, mean
	chatAnswer    = 250 // tokens of an answer, mean
	chatApps      = 6   // different system prompts
	chatSystem    = 800 // tokens of a system prompt
	chatThink     = 20 * time.Second
	chatBurstness = 0.5 // shape of the gamma distribution of the times between conversations: below 1 is burstier than Poisson
)

// Chats returns conversations of several turns that begin in bursts, and have so many requests a second in all. The prompt of a turn is the
// whole conversation before it.
func Chats(seed uint64, rate float64, conversations int) *Traffic {
	random := rand.New(rand.NewPCG(seed, 2))
	t := &Traffic{Name: "chats", BlockTokens: chatBlock}
	apps := make([][]uint64, chatApps)
	for i := range apps {
		apps[i] = extend(nil, chatSystem, random)
	}
	zipf := rand.NewZipf(random, 1.3, 1, chatApps-1)
	at := 0.0
	for range conversations {
		at += gamma(random) * chatTurns / rate
		t.converse(time.Duration(at*float64(time.Second)), apps[zipf.Uint64()], random)
	}
	slices.SortStableFunc(t.Requests, func(a, b Request) int { return int(a.At - b.At) })
	last := time.Duration(at * float64(time.Second))
	t.Requests = slices.DeleteFunc(t.Requests, func(r Request) bool { return r.At > last }) // the load falls from there on
	return t
}

// converse adds the turns of a conversation.
func (t *Traffic) converse(at time.Duration, system []uint64, random *rand.Rand) {
	session, account := random.Uint64(), accountOf(random)
	chain, tokens := system, chatSystem
	for {
		ask, answer := 1+int(chatAsk*random.ExpFloat64()), 1+int(chatAnswer*random.ExpFloat64())
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

// gamma draws from the gamma distribution with the shape 1/2 and the mean 1, which is that of the square of a normal variable. It is
// burstier than a Poisson process.
func gamma(random *rand.Rand) float64 { return math.Pow(random.NormFloat64(), 2) }
