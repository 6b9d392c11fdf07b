package entry

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/routing"
)

// PlanState is the plan that a request for a model would get now, and why.
type PlanState struct {
	Node    string `json:"node"`
	Region  string `json:"region,omitempty"`
	Account string `json:"account,omitempty"`
	routing.Explanation
	Onward map[string][]string `json:"onward,omitempty"` // by colo: where a small request goes from there by itself if the colo is full
}

// ExplainPlan explains the plan of a request for a model, by any of its names. account is the account of the request; with an empty one, the
// plan is that of any account which may use the model. The error is for an operator.
func (e *Entry) ExplainPlan(model, account string) (PlanState, error) {
	t := e.config.Table()
	if e.starting() {
		return PlanState{}, errors.New("this entry has no documents yet; its log says what is awaited")
	}
	m, ok := t.Model(model)
	if !ok {
		return PlanState{}, unknownName("model", model, modelNames(t))
	}
	if account != "" {
		if _, ok := t.Account(account); !ok && account != accounts.Open {
			return PlanState{}, fmt.Errorf("%w; an account without a document has the defaults: leave out the account", unknownName("account", account, accountNames(t)))
		}
		if caller := (accounts.Caller{Account: t.AccountOrDefault(account)}); !caller.MayUse(m.Name) {
			return PlanState{}, fmt.Errorf("the account %q may not use the model %q: list it in models of accounts/%s", account, m.Name, account)
		}
	}
	now := time.Now()
	explanation := e.planner.Explain(t, m, routing.Request{
		Seen: func(c *fleet.Colo) routing.Seen { return e.observed.seen(poolIn{m.Pool, c.Name}, now) },
		Seed: rand.Uint64(), RoundTrip: e.observed.measured, // which causes no ping
	})
	return PlanState{
		Node: e.config.Node, Region: e.config.Region, Account: account, Explanation: explanation, Onward: e.explainOnward(t, m, explanation),
	}, nil
}

// explainOnward returns the colo to which each colo of a plan forwards a small request if it is full.
func (e *Entry) explainOnward(t *fleet.Table, m *fleet.Model, plan routing.Explanation) map[string][]string {
	var colos []*fleet.Colo
	for _, step := range plan.Steps {
		for _, explained := range step.Colos {
			if c, ok := t.Colo(explained.Colo); ok {
				colos = append(colos, c)
			}
		}
	}
	onward := map[string][]string{}
	if m.Retry.ForwardBelow == 0 || m.Type == fleet.TypeRealtime {
		return onward
	}
	for i, at := range colos {
		if line := e.ranking.of(t, poolIn{m.Pool, at.Name}); len(line) == 0 || !canForward(line[0]) {
			continue
		}
		further := colos[i+1:]
		before := at
		for _, next := range further[:min(len(further), max(min(m.Retry.Hops-1, m.Retry.OutOfCapacity), 0))] {
			if s, _ := e.onwardServer(t, m.Pool, before, next); s == nil {
				break
			}
			onward[at.Name] = append(onward[at.Name], next.Name)
			before = next
		}
	}
	return onward
}

func modelNames(t *fleet.Table) []string {
	var names []string
	for _, m := range t.Models() {
		names = append(names, m.Name)
		names = append(names, m.Aliases...)
	}
	return names
}

func accountNames(t *fleet.Table) []string {
	var names []string
	for _, a := range t.Accounts() {
		names = append(names, a.Name)
	}
	return names
}

// unknownName returns the error for a name that no document has, with the names that are near to it.
func unknownName(what, name string, known []string) error {
	text := fmt.Sprintf("there is no %s %q", what, name)
	if near := nearNames(name, known); len(near) > 0 {
		text += "; similar names: " + strings.Join(near, ", ")
	}
	return errors.New(text)
}

const (
	mostNear   = 4   // names
	maxCompare = 128 // bytes of a name, the longest that a document may have
)

// nearNames returns the names that differ from name in at most a third of its letters, or that contain it, the nearest first.
func nearNames(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	if len(name) > maxCompare || name == "" {
		return nil
	}
	wanted := strings.ToLower(name)
	var near []candidate
	for _, other := range known {
		lower := strings.ToLower(other)
		d := editDistance(wanted, lower)
		if d <= max(2, len(name)/3) || strings.Contains(lower, wanted) {
			near = append(near, candidate{other, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, c := range near[:min(len(near), mostNear)] {
		names = append(names, c.name)
	}
	return names
}

// editDistance returns how many bytes must be inserted, removed or replaced to make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
