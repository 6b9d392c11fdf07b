package hop

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// maxVisits is the highest number of visits in a header.
	maxVisits = 16
	// maxVisitsSize is the length of the longest header with visits, in bytes. The head of an answer may have twice as many.
	maxVisitsSize = 8 << 10
	// maxReason is the length of the longest reason in a visit, in bytes.
	maxReason = 64
)

// Visit is what one server answered about a request that it did not serve. The answer of a server that has forwarded a request to another colo
// has a visit for that server itself, and one for each server that was asked after it without serving the request, in this order. They are in
// the header x-colonnade-visits, separated by commas: `COLO/NODE|verdict|load|queued_ms=…;attempts=…`.
type Visit struct {
	Colo, Node string
	// Verdict may have the kinds [VerdictLost] and [VerdictUnread] besides those of an answer.
	Verdict  Verdict
	Load     Load          // of the pool, if HasLoad
	HasLoad  bool          //
	Queued   time.Duration // time spent in the colo's queue
	Attempts int           // at engines
}

// FormatVisits returns the header's value, or "" if there are none. It leaves out what ParseVisits would not accept, since an answer is
// worth more than its visits: reasons and visits that are invalid, and what exceeds 16 visits or 8 KiB.
func FormatVisits(visits []Visit) string {
	var all strings.Builder
	n := 0
	for i := range visits {
		one := visits[i].format()
		if _, err := parseVisit(one); err != nil || n == maxVisits || all.Len()+1+len(one) > maxVisitsSize {
			continue
		}
		if n > 0 {
			all.WriteByte(',')
		}
		all.WriteString(one)
		n++
	}
	return all.String()
}

func (v *Visit) format() string {
	verdict := v.Verdict
	if !isReason(verdict.Reason) {
		verdict.Reason = ""
	}
	if !isPlainName(verdict.To) {
		verdict.To = ""
	}
	load := ""
	if v.HasLoad {
		load = v.Load.String()
	}
	return fmt.Sprintf("%s|%s|%s|queued_ms=%d;attempts=%d", NodeName(v.Colo, v.Node), verdict, load, max(v.Queued, 0).Milliseconds(), max(v.Attempts, 0))
}

// ParseVisits parses the header's value; an empty one has no visits. It ignores unknown names and further parts of a visit, so that
// nodes of different versions work together.
func ParseVisits(s string) ([]Visit, error) {
	if s == "" {
		return nil, nil
	}
	if len(s) > maxVisitsSize {
		return nil, fmt.Errorf("cannot parse visits %.40q: %d bytes, at most %d", s, len(s), maxVisitsSize)
	}
	if n := strings.Count(s, ",") + 1; n > maxVisits {
		return nil, fmt.Errorf("cannot parse visits %.40q: %d of them, at most %d", s, n, maxVisits)
	}
	var visits []Visit
	for one := range strings.SplitSeq(s, ",") {
		v, err := parseVisit(one)
		if err != nil {
			return nil, fmt.Errorf("cannot parse visit %.200q: %w", one, err)
		}
		visits = append(visits, v)
	}
	return visits, nil
}

var errVisitParts = errors.New("a visit has a server, a verdict, a load and numbers")

func parseVisit(s string) (v Visit, err error) {
	parts := strings.Split(s, "|")
	if len(parts) < 4 {
		return v, errVisitParts
	}
	if !IsNodeName(parts[0]) {
		return v, errors.New("the server is not COLO/NODE")
	}
	v.Colo, v.Node = SplitNodeName(parts[0])
	if v.Verdict, err = parseVerdict(parts[1], VerdictKind.ofVisit); err != nil {
		return v, err
	}
	switch {
	case v.Verdict.Reason != "" && !isReason(v.Verdict.Reason):
		return v, errors.New("the verdict has an invalid reason")
	case v.Verdict.To != "" && !isPlainName(v.Verdict.To):
		return v, errors.New("the verdict has an invalid node")
	}
	if parts[2] != "" {
		if v.Load, err = ParseLoad(parts[2]); err != nil {
			return v, err
		}
		v.HasLoad = true
	}
	return v, v.parseNumbers(parts[3])
}

// parseNumbers parses the last part of a visit.
func (v *Visit) parseNumbers(s string) error {
	for field := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(field, "=")
		if name != "queued_ms" && name != "attempts" {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if name == "queued_ms" {
			v.Queued = time.Duration(n) * time.Millisecond
		} else {
			v.Attempts = int(n)
		}
	}
	return nil
}

// isReason reports whether s can be the reason in a visit: lower-case letters, digits and underscores.
func isReason(s string) bool {
	return s != "" && len(s) <= maxReason && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_')
	})
}
