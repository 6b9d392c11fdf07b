package realtime

import (
	"errors"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/reasons"
)

// OutcomeRefused is the outcome of a session whose client has violated a limit, or the protocol.
const OutcomeRefused relay.OutcomeKind = "refused"

// closePlan is the outcome of a session, and the close frame for each end. The engine is closed first and within
// engineCloseTimeout, since its slot is free only then; OnClose is called; then the client is closed, within closeTimeout.
type closePlan struct {
	SessionOutcome
	engineCode, clientCode int
	engineText, clientText string
}

// sameForBoth is a plan with the same close frame for both ends.
func sameForBoth(e SessionOutcome, code int, text string) closePlan {
	return closePlan{SessionOutcome: e, engineCode: code, engineText: text, clientCode: code, clientText: text}
}

// planClose returns the plan after the first event of a duplex: cause, or else a failure.
func planClose(f failure, cause error) closePlan {
	switch {
	case errors.Is(cause, errMaxDuration):
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeTimeout, Reason: reasons.SessionTimeout}, websocket.CloseGoingAway, "session time is over")
	case errors.Is(cause, server.ErrClientGone):
		return planClientGone("")
	case cause != nil:
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeDrained, Reason: reasons.Draining}, websocket.CloseGoingAway, "server is shutting down")
	case f.side == clientSide:
		return planClientClose(f)
	}
	return planEngineClose(f)
}

// planClientClose returns the plan after a failure of the client.
func planClientClose(f failure) closePlan {
	code, text, ok := closeFrame(f)
	switch {
	case ok:
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeCompleted, Reason: closeReason(code)}, code, text)
	case errors.Is(f.err, websocket.ErrReadLimit):
		return planClientRefused(reasons.MessageTooBig, websocket.CloseMessageTooBig, "message is too big")
	case errors.Is(f.err, errOverhead):
		return planClientRefused(reasons.TooManyFragments, websocket.ClosePolicyViolation, errOverhead.Error())
	case errors.Is(f.err, errNotUTF8):
		return planClientRefused(reasons.NotUTF8, websocket.CloseInvalidFramePayloadData, errNotUTF8.Error())
	case errors.Is(f.err, errForeignModel):
		return planClientRefused(reasons.ForeignModel, websocket.ClosePolicyViolation, errForeignModel.Error())
	case isProtocolError(f):
		return planClientRefused(reasons.ProtocolError, websocket.CloseProtocolError, "")
	case netconn.IsTimeout(f.err) && f.writing:
		return planClientGone(reasons.Stalled)
	case netconn.IsTimeout(f.err):
		return planClientGone(reasons.Silent)
	}
	return planClientGone("")
}

func planClientRefused(reason string, code int, text string) closePlan {
	p := sameForBoth(SessionOutcome{Kind: OutcomeRefused, Reason: reason}, websocket.CloseGoingAway, "")
	p.clientCode, p.clientText = code, text
	return p
}

// planClientGone returns the plan for a client that has gone, or does not read. It gets a close frame in case it is an entry whose own
// client has gone.
func planClientGone(reason string) closePlan {
	p := sameForBoth(SessionOutcome{Kind: relay.OutcomeClientGone, Reason: reason}, websocket.CloseGoingAway, "")
	if p.clientText = "connection is ending"; reason != "" {
		p.clientCode, p.clientText = websocket.ClosePolicyViolation, "connection is "+reason
	}
	return p
}

// planEngineClose returns the plan after a failure of the engine.
func planEngineClose(f failure) closePlan {
	code, text, ok := closeFrame(f)
	switch {
	case ok && (code == websocket.CloseInternalServerErr || code == websocket.CloseServiceRestart):
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeEngineError, Reason: closeReason(code), EngineFault: true}, code, text)
	case ok && code == websocket.CloseTryAgainLater:
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeEngineError, Reason: closeReason(code)}, code, text)
	case ok: // perhaps with an error of the client
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeCompleted, Reason: closeReason(code)}, code, text)
	case errors.Is(f.err, websocket.ErrReadLimit):
		return planEngineFailed(relay.OutcomeEngineError, reasons.MessageTooBig)
	case errors.Is(f.err, errOverhead):
		return planEngineFailed(relay.OutcomeEngineError, reasons.TooManyFragments)
	case errors.Is(f.err, errNotUTF8):
		p := planEngineFailed(relay.OutcomeEngineError, reasons.NotUTF8)
		p.engineCode, p.engineText = websocket.CloseInvalidFramePayloadData, errNotUTF8.Error()
		return p
	case isProtocolError(f):
		return planEngineFailed(relay.OutcomeEngineError, reasons.ProtocolError)
	case netconn.IsTimeout(f.err) && f.writing:
		return planEngineFailed(relay.OutcomeTimeout, reasons.Stalled)
	case netconn.IsTimeout(f.err):
		return planEngineFailed(relay.OutcomeTimeout, reasons.Silent)
	}
	return planEngineFailed(relay.OutcomeEngineError, reasons.Truncated)
}

func planEngineFailed(kind relay.OutcomeKind, reason string) closePlan {
	return sameForBoth(SessionOutcome{Kind: kind, Reason: reason, EngineFault: true}, websocket.CloseInternalServerErr,
		"the inference engine failed")
}

// closeFrame returns the content of the close frame that has ended the connection, if one has.
func closeFrame(f failure) (code int, text string, ok bool) {
	var frame *websocket.CloseError
	if f.writing || !errors.As(f.err, &frame) || frame.Code == websocket.CloseAbnormalClosure {
		return 0, "", false
	}
	return frame.Code, frame.Text, true
}

// closeReason returns the reason for a close code, or "" for one without information.
func closeReason(code int) string {
	switch code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
		return ""
	}
	return "close_" + strconv.Itoa(code)
}

// isProtocolError reports whether gorilla's package has rejected a frame. It has no type for these errors.
func isProtocolError(f failure) bool {
	var frame *websocket.CloseError
	return !f.writing && !errors.As(f.err, &frame) && !netconn.IsTimeout(f.err) && strings.HasPrefix(f.err.Error(), "websocket: ")
}
