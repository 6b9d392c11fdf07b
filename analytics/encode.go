package analytics

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"math"
	"strconv"
	"time"
)

// AppendJSON appends the event as encoding/json would write it, several times faster.
func (e *Event) AppendJSON(dst []byte) []byte {
	o := object{append(dst, '{')}
	o.always("event_id", e.EventID)
	o.always("request_id", e.RequestID)
	o.text("client_request_id", e.ClientRequestID)
	o.always("kind", string(e.Kind))
	o.always("phase", string(e.Phase))
	o.time("time", e.Time)
	o.always("node", e.Node)
	o.text("colo_id", e.ColoID)
	o.text("source_colo_id", e.SourceColoID)
	o.texts("colo_path", e.ColoPath)

	o.text("account", e.Account)
	o.text("model", e.Model)
	o.text("pool", e.Pool)
	o.text("endpoint", e.Endpoint)
	o.text("engine", e.Engine)

	o.number("status", int64(e.Status))
	o.text("code", e.Code)
	o.text("reason", e.Reason)
	o.text("outcome", string(e.Outcome))
	o.number("attempts", int64(e.Attempts))

	o.millis("request_time_ms", e.RequestTime)
	o.millis("queuing_time_ms", e.QueuingTime)
	o.millis("inference_time_ms", e.InferenceTime)
	o.millis("time_to_first_token_ms", e.TimeToFirstToken)

	o.number("prompt_tokens", int64(e.PromptTokens))
	o.number("completion_tokens", int64(e.CompletionTokens))
	o.number("cached_tokens", int64(e.CachedTokens))
	o.number("tokens_estimated", int64(e.TokensEstimated))
	o.float("audio_seconds", e.AudioSeconds)
	o.float("cost", e.Cost)
	o.text("cost_unit", e.CostUnit)

	o.number("bytes_in", e.BytesIn)
	o.number("bytes_out", e.BytesOut)
	o.number("messages_in", e.MessagesIn)
	o.number("messages_out", e.MessagesOut)
	o.number("local_queue_size", int64(e.LocalQueueSize))

	o.flag("streamed", e.Streamed)
	o.flag("websocket", e.WebSocket)
	o.flag("beta", e.Beta)
	o.flag("external_endpoint", e.ExternalEndpoint)
	o.flag("queued_in_colo", e.QueuedInColo)
	o.flag("partial", e.Partial)
	return append(o.b, '}')
}

// object is a JSON object in the making. All but always leave a zero value out.
type object struct{ b []byte }

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) always(name, value string) {
	o.key(name)
	o.b = appendString(o.b, value)
}

func (o *object) text(name, value string) {
	if value != "" {
		o.always(name, value)
	}
}

func (o *object) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.key(name)
	separator := byte('[')
	for _, v := range values {
		o.b = appendString(append(o.b, separator), v)
		separator = ','
	}
	o.b = append(o.b, ']')
}

func (o *object) time(name string, t time.Time) {
	o.key(name)
	o.b = append(o.b, '"')
	o.b = t.AppendFormat(o.b, time.RFC3339Nano)
	o.b = append(o.b, '"')
}

func (o *object) number(name string, n int64) {
	if n != 0 {
		o.key(name)
		o.b = strconv.AppendInt(o.b, n, 10)
	}
}

func (o *object) float(name string, f float64) {
	if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return
	}
	o.key(name)
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		o.b = strconv.AppendFloat(o.b, f, 'f', -1, 64)
		return
	}
	b, _ := json.Marshal(f) // cannot fail: f is finite
	o.b = append(o.b, b...)
}

func (o *object) millis(name string, d Milliseconds) {
	if d != 0 {
		o.key(name)
		o.b = d.appendJSON(o.b)
	}
}

func (o *object) flag(name string, set bool) {
	if set {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

// appendString quotes s. Ids and names need no escapes; whatever does goes through encoding/json.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			b, _ := json.Marshal(s) // cannot fail: bad UTF-8 is replaced
			return append(dst, b...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

const crcDigits = 8

// castagnoli is made once: the table costs more than the sum of a line.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLine appends one line of a segment.
func appendLine(dst []byte, e *Event) []byte {
	start := len(dst)
	dst = append(dst, "00000000 "...)
	dst = e.AppendJSON(dst)
	body := dst[start+crcDigits+1:]
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(body, castagnoli))
	hex.Encode(dst[start:], sum[:])
	return append(dst, '\n')
}
