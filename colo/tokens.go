package colo

import (
	"errors"
	"time"

	"golang.org/x/time/rate"

	"colonnade/analytics/metrics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/openai"
	"colonnade/reasons"
)

// tokenLogInterval is the shortest time between two log lines about hop tokens of one kind.
const tokenLogInterval = time.Second

// tokenLog bounds the log lines about hop tokens.
type tokenLog struct{ invalid, replayed, again, old *rate.Limiter }

func newTokenLog() tokenLog {
	limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Every(tokenLogInterval), 1) }
	return tokenLog{limiter(), limiter(), limiter(), limiter()}
}

// claim marks a token as used, and returns an error if it may have been used before.
func (s *Server) claim(v *hop.Verified, now time.Time) error {
	if v.Old {
		if s.tokenLog.old.Allow() {
			s.config.Logger.Warn("a node of an older version signs hop tokens that can be used more than once; update it", "node", v.Token.Source)
		}
		return nil
	}
	return s.replays.Claim(&v.Token, now)
}

// forbid refuses a request without a hop token that is good here and now. A node whose token may have been used before gets the id of
// this process, to sign again.
func (s *Server) forbid(x *server.Exchange, err error) *peer.Answer {
	e := openai.NotANode()
	kind, limiter, log := metrics.TokenInvalid, s.tokenLog.invalid, s.config.Logger.Warn
	switch {
	case errors.Is(err, hop.ErrReplayed):
		kind, limiter = metrics.TokenReplayed, s.tokenLog.replayed
		e.Reason = reasons.HopTokenReplayed
	case errors.Is(err, hop.ErrSignAgain):
		kind, limiter, log = metrics.TokenSignAgain, s.tokenLog.again, s.config.Logger.Info
		x.SetField(hop.HeaderBoot, s.boot)
	}
	s.metrics.TokenRefused(kind)
	if limiter.Allow() {
		log("hop token refused", "from", x.Conn().RemoteAddr().String(), "kind", kind, "error", err)
	}
	return &peer.Answer{Error: e}
}
