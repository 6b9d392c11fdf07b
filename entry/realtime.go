package entry

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/ctxtime"
	"colonnade/openai"
)

// keyProtocol precedes an API key in a subprotocol: browsers cannot set headers of a WebSocket handshake.
const keyProtocol = "openai-insecure-api-key."

// receiveRealtime is receive for a WebSocket, which has a handshake instead of a body.
func (c *call) receiveRealtime(t *fleet.Table) *openai.Error {
	var err *openai.Error
	if c.handshake, err = relay.ReadHandshake(c.rc); err != nil {
		return err
	}
	if err = c.identify(t, takeKeys(c.handshake)...); err != nil {
		return err
	}
	c.beginCapture()
	if c.page.trust == trustForeign {
		return openai.OriginNotAllowed(c.page.origin)
	}
	if err = c.resolveModel(t, c.route.Model); err != nil {
		return err
	}
	if c.model.Type != fleet.TypeRealtime {
		return openai.InvalidRequest("model", "the model %q is of type %s: only models of type realtime speak WebSocket", c.model.Name, c.model.Type)
	}
	return checkMayRun(c.caller.Account)
}

// takeKeys removes the API keys from the subprotocols that a handshake offers, and all others that Colonnade does not know. It returns
// the keys.
func takeKeys(h *transport.Handshake) (keys []string) {
	var kept []string
	for _, protocol := range h.Protocols {
		if key, ok := strings.CutPrefix(protocol, keyProtocol); ok {
			keys = append(keys, key)
		}
		if protocol == realtime.Subprotocol && len(kept) == 0 {
			kept = append(kept, protocol)
		}
	}
	h.Protocols = kept
	return keys
}

// upgrade joins the client to the colo that has taken the handshake, once the handler has returned: by a session whose engine's end
// is in this process, or by a tunnel to the server that runs it. Nothing is tried again from here on.
func (c *call) upgrade(answer *peer.Answer) {
	if session := answer.Session; session != nil {
		c.eachHeader(func(name server.HeaderName, value string) {
			session.Fields = append(session.Fields, transport.Field{Name: name.String(), Value: value})
		})
		if c.capture != nil {
			session.Fields = append(session.Fields, transport.Field{Name: hop.HeaderCaptured, Value: c.capturedUntil()})
		}
		ended := session.OnClose
		session.OnClose = func(end realtime.SessionOutcome) {
			ended(end)
			c.noteSessionUsage(&end)
			c.logUpgraded(relay.Outcome{Kind: end.Kind, Reason: end.Reason}, end.BytesIn, end.BytesOut)
		}
		c.rc.HijackSetNoResponse(true) // the session answers
		c.Hijack(c.rc, func(client *netconn.Conn) {
			defer c.close()
			defer answer.OnClose()
			session.Run(client)
		})
		return
	}
	relay.SwitchProtocols(c.rc, c.handshake, answer.Response)
	c.headers()
	tunnel := &realtime.Tunnel{Context: c.Context, Response: answer.Response, Buffers: &c.entry.buffers, WriteStall: c.entry.config.WriteStall}
	c.Hijack(c.rc, func(client *netconn.Conn) {
		defer c.close()
		end := tunnel.Run(client)
		c.askSessionUsage(answer.ServedBy)
		c.logUpgraded(end.Outcome, end.BytesIn, end.BytesOut)
	})
}

const (
	sessionUsageWithin = 2 * time.Second       // after the end of a tunnel, the server has learned that the session has ended
	sessionUsageEvery  = 50 * time.Millisecond // the server is asked meanwhile
)

// askSessionUsage asks the server that had a realtime session what it has used, if limits bound that. servedBy is its [hop.NodeName], or empty for
// the server that was asked last.
func (c *call) askSessionUsage(servedBy string) {
	if c.limits == nil || !c.limits.boundsUsage() {
		return
	}
	colo, node := hop.SplitNodeName(cmp.Or(servedBy, c.path[len(c.path)-1]))
	servers := c.entry.config.Table().Servers(colo)
	i := slices.IndexFunc(servers, func(s *fleet.Server) bool { return s.Node == node })
	if i < 0 {
		c.entry.config.Logger.Warn("session does not count against limits of tokens and budgets, since its server has left", "server", node, "request_id", c.id)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sessionUsageWithin) // also of a client that has gone
	defer cancel()
	for {
		used, err := c.entry.sender.Client.SessionUsage(ctx, peerOf(servers[i]), c.id)
		var none *peer.NoVerdictError
		switch {
		case err == nil:
			c.limits.used = usedTokens{
				Usage:    openai.Usage{Prompt: used.Prompt, Completion: used.Completion},
				answered: true, reported: used.Reported, unreported: float64(used.Unreported),
			}
			return
		case !errors.As(err, &none) || none.Status != http.StatusNotFound || !ctxtime.Sleep(ctx, sessionUsageEvery):
			c.entry.config.Logger.Warn("session does not count against limits of tokens and budgets, since its server does not say what it has used",
				"server", node, "request_id", c.id, "error", err)
			return
		}
	}
}

// logUpgraded logs the end of a request that was a WebSocket.
func (c *call) logUpgraded(end relay.Outcome, in, out int64) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Partial = analytics.Outcome(end.Kind), end.Kind != relay.OutcomeCompleted
	e.Status, e.BytesIn, e.BytesOut = 101, in, out
	c.log(&e)
}
