package query

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"colonnade/analytics"
)

// MaxLast bounds the parameter last.
const MaxLast = 100_000

// pageQuery is what a request asks of the page.
type pageQuery struct {
	filter Filter
	after  string // position; empty: from the oldest event on
	last   int    // the newest events; -1: all
	bytes  int    // after which the answer ends
	follow bool
}

// Kinds and Outcomes are the values of Filter.Kind and Filter.Outcome.
var (
	Kinds    = []analytics.Kind{analytics.KindRequest, analytics.KindInference, analytics.KindForward, analytics.KindEngine}
	Outcomes = []analytics.Outcome{
		analytics.OutcomeCompleted, analytics.OutcomeClientGone, analytics.OutcomeEngineError, analytics.OutcomeTimeout,
		analytics.OutcomeRefused, analytics.OutcomeMoved, analytics.OutcomeDrained, analytics.OutcomeCrashed,
	}
)

// pageParameters lists the parameters of the page, for errors.
const pageParameters = "account, key, model, request, kind, outcome, since, until, phase, last, bytes, after, follow"

// parsePageQuery reads the parameters of a request.
func parsePageQuery(values url.Values, now time.Time) (*pageQuery, error) {
	q := &pageQuery{last: -1, bytes: MaxBytes}
	for name := range values {
		value := values.Get(name)
		if err := q.set(name, value, now); err != nil {
			return nil, fmt.Errorf("%.40s=%.200s: %w", strconv.QuoteToASCII(name), strconv.QuoteToASCII(value), err)
		}
	}
	return q, nil
}

func (q *pageQuery) set(name, value string, now time.Time) (err error) {
	f := &q.filter
	switch name {
	case "account":
		f.Account = value
	case "key":
		f.Key = value
	case "model":
		f.Model = value
	case "request":
		f.Request = value
	case "kind":
		f.Kind, err = oneOf(value, Kinds)
	case "outcome":
		f.Outcome, err = oneOf(value, Outcomes)
	case "since":
		f.Since, err = ParseTime(value, now)
	case "until":
		f.Until, err = ParseTime(value, now)
	case "phase":
		_, err = oneOf(value, []string{"all", string(analytics.PhaseEnd)})
		f.Begins = value == "all"
	case "last":
		q.last, err = number(value, 0, MaxLast)
	case "bytes":
		q.bytes, err = number(value, 1, MaxBytes)
	case "after":
		q.after = value
	case "follow":
		q.follow, err = strconv.ParseBool(value)
	default:
		return fmt.Errorf("there is no such parameter; there are %s", pageParameters)
	}
	return err
}

func oneOf[T ~string](value string, values []T) (string, error) {
	if !slices.Contains(values, T(value)) {
		return "", fmt.Errorf("must be one of %q", values)
	}
	return value, nil
}

func number(value string, low, high int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("must be %d to %d", low, high)
	}
	return n, nil
}

// PageRequest is a request to the page of a node.
type PageRequest struct {
	Filter Filter // Node is not sent
	After  string // HeaderPosition of the answer before; empty: from the oldest event on
	Last   int    // the newest events; negative: all
	Bytes  int    // after which the answer ends; 0 = MaxBytes
}

// Query returns the parameters of the request.
func (r *PageRequest) Query() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	f := &r.Filter
	set("account", f.Account)
	set("key", f.Key)
	set("model", f.Model)
	set("request", f.Request)
	set("kind", f.Kind)
	set("outcome", f.Outcome)
	if !f.Since.IsZero() {
		set("since", f.Since.Format(time.RFC3339Nano))
	}
	if !f.Until.IsZero() {
		set("until", f.Until.Format(time.RFC3339Nano))
	}
	if f.Begins {
		set("phase", "all")
	}
	if r.After != "" {
		set("after", r.After)
	} else if r.Last >= 0 {
		set("last", strconv.Itoa(r.Last))
	}
	if r.Bytes > 0 {
		set("bytes", strconv.Itoa(r.Bytes))
	}
	return v
}
