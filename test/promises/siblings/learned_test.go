package siblings_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// talk is a conversation.
type talk struct {
	number   int
	messages []string // as JSON
	words    int      // of them all
}

// turn sends the next turn of a conversation, and returns how many words were sent before it, and how many of the prompt the engine had in its
// cache.
func (s *stage) turn(c *talk) (before, cached int) {
	s.T.Helper()
	var words strings.Builder
	for n := range 400 {
		fmt.Fprintf(&words, "word-%d-%d-%d ", c.number, len(c.messages), n)
	}
	c.messages = append(c.messages, fmt.Sprintf(`{"role":"user","content":%q}`, words.String()))
	body := fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[%s]}`, s.Pools()[0], strings.Join(c.messages, ","))
	status, _, text := testkit.Post("http://"+s.Entries[0].Address+"/v1/chat/completions", body)
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		s.T.Fatalf("conversation %d got %d %s", c.number, status, text)
	}
	before, c.words = c.words, c.words+400
	return before, answer.Usage.Details.Cached
}

// waitCopied waits until a server has a copy of what the home of the only pool has learned by now.
func (s *stage) waitCopied(next *proctest.Node) {
	s.T.Helper()
	began := time.Now()
	testkit.WaitFor(s.T, next.Name+" to copy what the home has learned", func() bool {
		_, page := next.Get("/debug/pools")
		var pools []struct {
			CopyAge *float64 `json:"copy_age_seconds"`
		}
		return json.Unmarshal([]byte(page), &pools) == nil && len(pools) == 1 && pools[0].CopyAge != nil &&
			time.Duration(*pools[0].CopyAge*float64(time.Second)) < time.Since(began)
	})
}

// The next home of a pool sends each conversation to the engine that has it in its cache: by a copy if the home was killed, and by what the home
// tells it if that drains, also of the last moments.
func TestNextHomeKnowsCaches(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*proctest.Node){"killed": (*proctest.Node).Kill, "drained": (*proctest.Node).Leave} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := proctest.Config{Servers: 2, Engines: 4, Cache: 10_000, Documents: "---\nkey: pools/pool-1\nbalance: {policy: prefix_affinity}\n"}
			s := &stage{Fleet: proctest.Start(t, c)}
			home := s.home()
			next := s.Servers[0]
			if next == home {
				next = s.Servers[1]
			}
			var talks []*talk
			turns := func() (missed int) {
				for _, c := range talks {
					if before, cached := s.turn(c); cached < before*9/10 {
						missed++
					}
				}
				return missed
			}
			for n := range 15 {
				talks = append(talks, &talk{number: n})
			}
			if name == "drained" {
				s.turn(&talk{number: len(talks)})
				s.waitCopied(next) // without the others
			}
			turns()
			if missed := turns(); missed > 0 {
				t.Errorf("%d of %d conversations were not in the cache before", missed, len(talks))
			}
			if name == "killed" {
				s.waitCopied(next)
			}
			end(home)
			slices.Reverse(talks) // or equals in turn would find them, too
			if missed := turns(); missed > 0 {
				t.Errorf("%d of %d conversations were not in the cache at the next home", missed, len(talks))
			}
			if n := s.served()[next.Name]; n != len(talks) {
				t.Errorf("%s has served %d of %d requests", next.Name, n, len(talks))
			}
		})
	}
}
