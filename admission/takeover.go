package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"colonnade/balance"
	"colonnade/permits"
)

// Learned is what a server has learned of a pool while it was its home, so that the next home need not begin from nothing. Its JSON is what
// servers of a colo tell each other: fields that are not known are ignored, so that a newer version can add some.
type Learned struct {
	Version   int             `json:"version"` // learnedVersion
	AgeMillis int64           `json:"age_ms"`  // since it was in force
	Permits   permits.Learned `json:"permits"`
	Engines   []EngineLearned `json:"engines,omitempty"`
	TTFT      []TTFTLearned   `json:"ttft,omitempty"`
}

// EngineLearned is what is known of one engine.
type EngineLearned struct {
	URL    string       `json:"url"`
	Auto   *AutoLearned `json:"auto,omitempty"`
	State  string       `json:"state,omitempty"`     // ejected or down; empty: up
	Why    string       `json:"reason,omitempty"`    // of State
	Ejects int          `json:"ejections,omitempty"` // of late
	// Prompted is how many tokens of prompts the engine had looked for in its prefix cache since it began: one that says less has begun anew.
	Prompted float64 `json:"prompted,omitempty"`
	balance.Known
}

// says reports whether anything is known.
func (l *EngineLearned) says() bool {
	return l.Auto != nil || l.State != "" || len(l.FirstBytes)+len(l.Adapters)+len(l.Blocks) > 0
}

// AutoLearned is a limit that was found, and the averages by size of request that it was judged by; see gradient.
type AutoLearned struct {
	Limit    float64          `json:"limit"`
	Samples  uint64           `json:"samples"`
	Averages []AverageLearned `json:"averages,omitempty"`
}

// AverageLearned is the mean logarithm of the seconds that requests of one size take to begin.
type AverageLearned struct {
	Size int     `json:"size"`
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
}

// TTFTLearned is the minimum TTFT of one class; see minTTFT.
type TTFTLearned struct {
	Model     string  `json:"model"`
	Path      string  `json:"path"`
	Streamed  bool    `json:"streamed,omitempty"`
	N         int     `json:"n"`
	AgeMillis int64   `json:"age_ms"` // since its window began
	Least     float64 `json:"least_ns"`
	PerByte   float64 `json:"per_byte_ns"`
	PerToken  float64 `json:"per_token_ns,omitempty"` // 0: not known
}

const (
	learnedVersion = 1
	// MaxLearned bounds the JSON of [Learned], in bytes, and MinLearned is what every version takes.
	MaxLearned = 3 << 20
	MinLearned = 64 << 10
	// MaxLearnedAge is the age from which on nothing is taken over.
	MaxLearnedAge = 5 * time.Minute

	learnedAccounts = 128
	learnedBlocks   = 112 << 10 // of all engines of a pool: 1 MiB, or a third more in JSON
	learnedAdapters = 8 << 10   // likewise
	maxClasses      = 64
	maxEngines      = 1024
	maxName         = 256 // bytes of a name that another server tells
)

// ErrLearned is the error of bytes that are no Learned, or one of another version.
var ErrLearned = errors.New("not what this version can take over")

// Encode returns the JSON of l, of at most so many bytes, or MinLearned if that is more. If it is longer, it is without what the choice of
// endpoints goes by, and then loses the later half of its longest list, as often as needed.
func (l *Learned) Encode(most int) []byte {
	most = max(min(most, MaxLearned), MinLearned)
	short := *l
	short.Version = learnedVersion
	if most < MaxLearned {
		short.dropKnown() // the asking server does not know it
	}
	for {
		text, err := json.Marshal(&short)
		if err != nil {
			panic("admission: " + err.Error()) // strings and finite numbers
		}
		if len(text) <= most {
			return text
		}
		switch accounts := short.Permits.Accounts; {
		case short.dropKnown():
		case len(short.Engines) >= max(len(accounts), len(short.TTFT)):
			short.Engines = short.Engines[:len(short.Engines)/2]
		case len(accounts) >= len(short.TTFT):
			short.Permits.Accounts = accounts[:len(accounts)/2]
		default:
			short.TTFT = short.TTFT[:len(short.TTFT)/2]
		}
	}
}

// dropKnown drops what the choice of endpoints goes by, and reports whether there was any. The engines of other copies of l keep it.
func (l *Learned) dropKnown() (dropped bool) {
	l.Engines = slices.Clone(l.Engines)
	for i := range l.Engines {
		k := &l.Engines[i].Known
		dropped = dropped || len(k.FirstBytes)+len(k.Adapters)+len(k.Blocks) > 0
		*k = balance.Known{}
	}
	return dropped
}

// DecodeLearned returns what another server has learned. Its values are only checked when they are taken over.
func DecodeLearned(text []byte) (*Learned, error) {
	if len(text) > MaxLearned {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrLearned, MaxLearned)
	}
	l := &Learned{}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLearned, err)
	}
	if l.Version != learnedVersion || l.AgeMillis < 0 {
		return nil, fmt.Errorf("%w: version %d", ErrLearned, l.Version)
	}
	return l, nil
}

// Age returns how old it was when it was encoded.
func (l *Learned) Age() time.Duration {
	return time.Duration(min(l.AgeMillis, int64(MaxLearnedAge/time.Millisecond))) * time.Millisecond
}

// Learned returns what is known of a pool; nil if there is no such pool, or nothing is known of it.
func (m *Manager) Learned(pool string) *Learned {
	p, ok := m.Pool(pool)
	if !ok {
		return nil
	}
	now := time.Now()
	l := &Learned{Permits: p.permits.Learned(learnedAccounts), TTFT: p.ttft.learned(now)}
	m.mu.Lock()
	for url, e := range p.members {
		if known, ok := e.learned(now); ok && len(l.Engines) < maxEngines {
			known.URL = url
			l.Engines = append(l.Engines, known)
		}
	}
	m.mu.Unlock()
	n := max(len(l.Engines), 1)
	for i := range l.Engines {
		if e := &l.Engines[i]; e.State != stateDown { // it will begin anew
			e.Known = p.permits.Known(e.URL, learnedBlocks/n)
			e.Adapters = e.Adapters[:min(len(e.Adapters), max(learnedAdapters/n, 1))]
		}
	}
	l.Engines = slices.DeleteFunc(l.Engines, func(e EngineLearned) bool { return !e.says() })
	if l.Permits.Released == 0 && len(l.Engines) == 0 {
		return nil
	}
	return l
}

// learned returns what is worth telling of the engine, but for what its pool's permits know. ok is false if another server knows more. The
// manager's mutex is held.
func (e *engine) learned(now time.Time) (l EngineLearned, ok bool) {
	if !e.granted && now.Sub(e.withheldSince) > MaxLearnedAge {
		return l, false
	}
	if e.auto() && e.gradient.found() {
		l.Auto = e.gradient.learned()
	}
	if s := e.health.state(); s == stateEjected || s == stateDown {
		l.State, l.Why, l.Ejects = s, e.health.reason(), e.health.ejections
	}
	l.Prompted = e.prompted
	return l, true
}

// Adopted says what was taken over.
type Adopted struct {
	Holds   bool // the mean hold
	Engines int
	Blocks  int // of prompts
}

// Adopt takes over what another server has learned of a pool, age ago, where this server knows nothing of its own.
func (m *Manager) Adopt(pool string, l *Learned, age time.Duration) (a Adopted) {
	p, ok := m.Pool(pool)
	if !ok || age < 0 || age > MaxLearnedAge {
		return a
	}
	a.Holds = p.permits.Adopt(&l.Permits)
	same := m.adoptEngines(p, l, age)
	for i := range same {
		a.Blocks += p.permits.AdoptKnown(same[i].URL, &same[i].Known, age)
		m.endAdoption(p, &same[i])
	}
	a.Engines = len(same)
	return a
}

// adoption is what another server has learned of an engine, while it is taken over.
type adoption struct {
	*EngineLearned
	engine *engine
	losses uint64 // of the engine's cache, before
}

// endAdoption forgets the blocks that were taken over if the engine has lost its cache meanwhile.
func (m *Manager) endAdoption(p *Pool, a *adoption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.engine.cache.losses != a.losses {
		p.permits.ForgetCache(a.URL)
	}
}

// adoptEngines takes over what another server has learned of the engines of a pool, but for what its permits know. It returns the engines that
// have not begun anew since then.
func (m *Manager) adoptEngines(p *Pool, l *Learned, age time.Duration) (same []adoption) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range l.TTFT[:min(len(l.TTFT), maxClasses)] {
		p.ttft.adoptLocked(now, &l.TTFT[i], age)
	}
	for i := range l.Engines[:min(len(l.Engines), maxEngines)] {
		received := &l.Engines[i]
		e := p.members[received.URL]
		if e == nil {
			continue
		}
		if e.began.Before(now.Add(-age)) && !e.cache.refused {
			same = append(same, adoption{received, e, e.cache.losses})
			e.prompted, e.cache.adopted = max(e.prompted, received.Prompted), true
		}
		if e.granted {
			m.adoptLocked(e, received, now)
			continue
		}
		state := *received
		state.Known = balance.Known{} // is not kept until it is granted
		e.received, e.receivedAt = &state, now.Add(-age)
	}
	return same
}

// adoptReceivedLocked takes over what a server has received of engines before permits could be granted on them.
func (m *Manager) adoptReceivedLocked(now time.Time) {
	for _, e := range m.engines {
		if e.received == nil || !e.granted || e.pool == nil {
			continue
		}
		if now.Sub(e.receivedAt) <= MaxLearnedAge {
			m.adoptLocked(e, e.received, now)
		}
		e.received = nil
	}
}

// adoptLocked takes over what another server knows of an engine on which permits may be granted. Whether it is out is for the next
// health check to say, which is due.
func (m *Manager) adoptLocked(e *engine, received *EngineLearned, now time.Time) {
	if e.auto() && received.Auto != nil && !e.gradient.found() {
		e.adaptLocked(now, func(now time.Time, g *gradient) { g.adoptLearned(now, received.Auto) })
	}
	if (received.State != stateEjected && received.State != stateDown) || e.health.answered || e.health.state() != stateUp {
		return
	}
	if received.State == stateEjected && !m.mayEjectLocked(e.pool) {
		return
	}
	m.changeLocked(e, now, func(h *health) { h.adopt(now, received) })
	e.checkDue = true
	e.wake()
}

// adopt takes the word of another server that the engine is out, until a health check succeeds. One more failed request ejects it again.
func (h *health) adopt(now time.Time, received *EngineLearned) {
	h.failures = failuresToEject - 1
	h.ejections, h.ejectedAt = min(max(received.Ejects, 0), 10), now
	if received.State == stateDown {
		h.down, h.checkError = true, truncate(received.Why)
		return
	}
	h.ejected, h.until, h.failure = true, now, truncate(received.Why)
}
