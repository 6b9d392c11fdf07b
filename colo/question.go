package colo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/homes"
	"colonnade/openai"
)

// questionPrefix begins the paths on which nodes ask about this process.
const questionPrefix = "/colonnade/"

func isQuestion(rc *fasthttp.RequestCtx) bool {
	return bytes.HasPrefix(rc.Request.Header.RequestURI(), []byte(questionPrefix))
}

// checkQuestion checks the head of a question on a path.
func checkQuestion(h *fasthttp.RequestHeader, path string) *openai.Error {
	if path == hop.PathLink {
		return server.CheckLinkHead(h)
	}
	return server.CheckHead(h, 0)
}

// answers reports whether the server answers questions on a path.
func (s *Server) answers(path string) bool {
	switch path {
	case hop.PathAlive, hop.PathLink, hop.PathSessionUsage, hop.PathModelFacts, hop.PathLearned:
		return true
	case hop.PathOwned:
		return s.config.Owned != nil
	}
	return false
}

// serveQuestion answers a question of another node about this process. A question is no request in flight: it is answered also while the
// server drains or may grant nothing, needs no permit and no memory for a body, and a drain does not wait for it.
func (s *Server) serveQuestion(rc *fasthttp.RequestCtx) {
	defer func() {
		if server.LogPanic(s.config.Logger, "peer listener", recover()) {
			rc.Response.Reset()
			s.write(server.TextExchange(rc), "", &peer.Answer{Error: openai.Internal()})
		}
	}()
	h := &rc.Request.Header
	path, _, _ := bytes.Cut(h.RequestURI(), []byte("?"))
	e := checkQuestion(h, string(path))
	switch {
	case e != nil:
	case !s.answers(string(path)):
		e = openai.UnknownURL(string(path))
	case !h.IsGet():
		e = openai.MethodNotAllowed(string(h.Method()), http.MethodGet)
	}
	if e != nil {
		s.write(server.TextExchange(rc), "", &peer.Answer{Error: e})
		return
	}
	token, err := s.verifyQuestion(rc, string(path))
	if err != nil {
		rc.SetConnectionClose()
		x := server.TextExchange(rc)
		s.write(x, "", s.forbid(x, err))
		return
	}
	s.answerQuestion(rc, string(path), token)
}

// answerQuestion answers a question that the node with the token may ask.
func (s *Server) answerQuestion(rc *fasthttp.RequestCtx, path string, token *hop.Token) {
	query := rc.QueryArgs()
	var answer any
	switch path {
	case hop.PathAlive:
		rc.SetStatusCode(http.StatusNoContent)
		return
	case hop.PathLink:
		if !s.http.AcceptLink(rc) {
			s.write(server.TextExchange(rc), "", &peer.Answer{Error: openai.InvalidRequest("", "this URL is for Upgrade: "+hop.UpgradeLink+", on a connection of its own")})
		}
		return
	case hop.PathSessionUsage:
		used, found := s.sessions.take(string(query.Peek(hop.ParamRequest)), token.Source)
		if !found {
			rc.SetStatusCode(http.StatusNotFound)
			return
		}
		answer = used
	case hop.PathModelFacts:
		answer = s.ModelFacts()
	case hop.PathLearned:
		s.answerLearned(rc, token.Source)
		return
	default:
		answer = s.config.Owned(homes.Process{Node: token.Source, Boot: string(query.Peek(hop.ParamFrom))}, string(query.Peek(hop.ParamAbout)))
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic("colo: " + err.Error()) // strings and numbers
	}
	answerJSON(rc, body)
}

func answerJSON(rc *fasthttp.RequestCtx, body []byte) {
	rc.SetContentType("application/json")
	rc.SetBody(body)
}

// answerLearned answers a server what this one has learned of a pool.
func (s *Server) answerLearned(rc *fasthttp.RequestCtx, to string) {
	query := rc.QueryArgs()
	pool := string(query.Peek(hop.ParamPool))
	text := s.learned(pool, time.Now(), query.GetUintOrZero(hop.ParamBytes))
	s.takeovers.noteAnswer(pool, to)
	if text == nil {
		rc.SetStatusCode(http.StatusNotFound)
		return
	}
	answerJSON(rc, text)
}

// verifyQuestion returns the token of a question, which is used up, unless it is not valid here and now. With mutual TLS, only
// the entry or colo server that has signed it may ask for a sign of life, for a link, or what its session has used. Only a server of this colo
// may ask which engines the process owns, and for its learned figures.
func (s *Server) verifyQuestion(rc *fasthttp.RequestCtx, path string) (*hop.Token, error) {
	v, now := new(hop.Verified), time.Now()
	err := s.verifyHead(v, server.TextHead(&rc.Request.Header), string(rc.Request.Header.RequestURI()), now)
	switch {
	case err != nil:
		return nil, err
	case v.Old:
		return nil, fmt.Errorf("%w: of a version that asks no questions", hop.ErrBadToken)
	case path != hop.PathOwned && path != hop.PathLearned:
		err = server.VerifyTokenSource(s.config.Peers, rc.Conn(), &v.Token)
	default:
		err = s.verifySibling(rc, &v.Token)
	}
	if err != nil {
		return nil, err
	}
	if err := v.VerifyBody(nil); err != nil {
		return nil, err
	}
	return &v.Token, s.claim(v, now)
}

// verifySibling returns an error unless a server of this colo has sent the token of a question, to this colo.
func (s *Server) verifySibling(rc *fasthttp.RequestCtx, t *hop.Token) error {
	if to := rc.QueryArgs().Peek(hop.ParamColo); string(to) != s.config.Colo {
		return fmt.Errorf("%w: a question to colo %.40q, and this is %q", hop.ErrBadToken, to, s.config.Colo)
	}
	return server.VerifySender(s.config.Peers, rc.Conn(), peertls.Identity{Role: peertls.RoleColo, Colo: s.config.Colo, Node: t.Source})
}
