package balance

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"colonnade/balance"
)

// llmd is llm-d's scheduler: the program bench/llmd in a process of its own, with an empty index of prefixes.
type llmd struct {
	process *exec.Cmd
	in      io.WriteCloser
	prompt  []byte // guarded by the mutex of the pool

	mu      sync.Mutex // guards the fields below
	calls   *gob.Encoder
	answers *gob.Decoder
}

// llmdCall asks which of some endpoints gets a prompt, or says that the request was sent to the one that was chosen.
type llmdCall struct {
	ID        string
	Prompt    []byte
	Endpoints []llmdEndpoint // none: the request was sent
}

// llmdEndpoint is an engine, as its metrics describe it.
type llmdEndpoint struct {
	Name                string
	Waiting, Running    int
	Usage               float64
	BlockTokens, Blocks int // of the cache
}

// llmdAnswer is the index of the endpoint that was chosen.
type llmdAnswer struct{ At int }

// startLLMD panics if the program does not start; the caller calls stop.
func startLLMD(program string) *llmd {
	l := &llmd{process: exec.Command(program)}
	l.process.Stderr = os.Stderr
	in, err := l.process.StdinPipe()
	must(err)
	out, err := l.process.StdoutPipe()
	must(err)
	must(l.process.Start())
	l.in, l.calls, l.answers = in, gob.NewEncoder(in), gob.NewDecoder(out)
	return l
}

func (l *llmd) stop() {
	must(l.in.Close())
	must(l.process.Wait())
}

// choose returns the index of the endpoint that a request gets.
func (l *llmd) choose(c *llmdCall) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var a llmdAnswer
	must(l.calls.Encode(c))
	must(l.answers.Decode(&a))
	return a.At
}

// sent says that a request was sent to the endpoint that choose has returned last.
func (l *llmd) sent(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	must(l.calls.Encode(llmdCall{ID: id}))
}

// must panics if there is an error: the pool, under whose mutex the program is asked, takes none.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("balance: cannot ask the program of llm-d: %v", err))
	}
}

// pick asks llm-d which endpoint gets a request. It is called under the pool's mutex.
func (r *run) pick(open []string, b *balance.Request) int {
	i, now := r.indices[b], r.now()
	l, q := r.llmd, &r.Traffic.Requests[i]
	l.prompt = l.prompt[:0]
	for _, block := range q.Chain {
		l.prompt = appendText(l.prompt, block, r.Traffic.BlockTokens)
	}
	c := llmdCall{ID: strconv.Itoa(i), Prompt: l.prompt}
	for _, id := range open {
		at, _ := strconv.Atoi(id)
		m := r.engines[at].metrics(now)
		c.Endpoints = append(c.Endpoints, llmdEndpoint{
			Name: id, Waiting: m.waiting, Running: m.running, Usage: m.usage, BlockTokens: r.Traffic.BlockTokens, Blocks: r.Timing.CacheTokens / r.Traffic.BlockTokens,
		})
	}
	return l.choose(&c)
}
