package balance

import (
	"bytes"
	_ "embed" // of the trace
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"colonnade/balance"
)

//go:embed mooncake.csv
var mooncake []byte

// Request is one request of a traffic.
type Request struct {
	At            time.Duration // since the traffic began
	Account       int
	Input, Output int      // tokens
	Chain         []uint64 // hashes of the prompt's blocks of tokens
	Balance       balance.Request
}

// Traffic is a sequence of requests in order of their arrival.
type Traffic struct {
	Name        string
	BlockTokens int // tokens of a block of Request.Chain
	Requests    []Request
}

// Rate is how many requests arrive in a second.
func (t *Traffic) Rate() float64 {
	return float64(len(t.Requests)) / t.Requests[len(t.Requests)-1].At.Seconds()
}

const (
	mooncakeBlock = 512             // tokens
	mooncakeStep  = 3 * time.Second // to which the times of the trace are rounded
)

// Mooncake returns an excerpt of the conversations of the Mooncake trace. Accounts are not part of the trace: each conversation has one by
// chance.
func Mooncake(seed uint64) (*Traffic, error) {
	reader := csv.NewReader(bytes.NewReader(mooncake))
	reader.Comment = '#'
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("cannot read the trace: %w", err)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	t := &Traffic{Name: "mooncake", BlockTokens: mooncakeBlock}
	for i, row := range rows[1:] {
		var v [5]int
		for k := range v {
			if v[k], err = strconv.Atoi(row[k]); err != nil {
				return nil, fmt.Errorf("cannot read the trace: %w", err)
			}
		}
		r := Request{At: time.Duration(v[0]) * time.Second, Input: v[1], Output: max(v[2], 1)}
		back, shared := v[3], v[4]
		parent := &Request{}
		if back > 0 {
			parent = &t.Requests[i-back]
			r.Chain = append(r.Chain, parent.Chain[:min(shared, len(parent.Chain))]...)
		}
		for len(r.Chain) < r.Input/mooncakeBlock {
			r.Chain = append(r.Chain, random.Uint64())
		}
		if shared > 1 { // more than the beginning that all share
			r.join(parent.Account, parent.Balance.Key)
		} else {
			r.join(accountOf(random), random.Uint64())
		}
		t.Requests = append(t.Requests, r)
	}
	t.spread()
	t.write()
	return t, nil
}

// accounts is how many accounts there are.
const accounts = 4

// accountOf gives the first account twice as many conversations as each of the others.
func accountOf(random *rand.Rand) int { return max(0, random.IntN(accounts+1)-1) }

// join makes the request part of a conversation.
func (r *Request) join(account int, session uint64) {
	r.Account = account
	r.Balance.Key, r.Balance.Prefix = session, session
}

// spread places the requests of one moment evenly before the next.
func (t *Traffic) spread() {
	for i := 0; i < len(t.Requests); {
		n := 1
		for i+n < len(t.Requests) && t.Requests[i+n].At == t.Requests[i].At {
			n++
		}
		for k := range n {
			t.Requests[i+k].At += mooncakeStep * time.Duration(k+1) / time.Duration(n+1)
		}
		i += n
	}
}
