package journal

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"colonnade/analytics"
)

// appendEvent appends the event as encoding/json would encode it, in a third of the time: encoding/json adds 4 µs and seven allocations
// to a request that writes four events, which is more than 3 % of its processor time. A cost or a time that JSON cannot express (an engine
// may report any number of seconds) is left out, so that the event is kept.
func appendEvent(dst []byte, e *analytics.Event) []byte {
	o := object(dst).always(`{"event_id":`, e.EventID)
	o = o.always(`,"request_id":`, e.RequestID)
	o = o.text(`,"client_request_id":`, e.ClientRequestID)
	o = o.text(`,"trace_id":`, e.TraceID)
	o = o.always(`,"kind":`, string(e.Kind))
	o = o.always(`,"phase":`, string(e.Phase))
	o = o.time(`,"time":`, e.Time)
	o = o.always(`,"node":`, e.Node)
	o = o.text(`,"colo_id":`, e.ColoID)
	o = o.text(`,"source_colo_id":`, e.SourceColoID)
	o = o.texts(`,"colo_path":`, e.ColoPath)

	o = o.text(`,"account":`, e.Account)
	o = o.text(`,"key":`, e.Key)
	o = o.text(`,"model":`, e.Model)
	o = o.text(`,"requested_model":`, e.RequestedModel)
	o = o.text(`,"pool":`, e.Pool)
	o = o.engine(e)

	o = o.number(`,"status":`, int64(e.Status))
	o = o.text(`,"code":`, e.Code)
	o = o.text(`,"reason":`, e.Reason)
	o = o.text(`,"detail":`, e.Detail)
	o = o.text(`,"outcome":`, string(e.Outcome))
	o = o.number(`,"attempts":`, int64(e.Attempts))

	o = o.milliseconds(`,"request_time_ms":`, e.RequestTime)
	o = o.milliseconds(`,"queuing_time_ms":`, e.QueuingTime)
	o = o.milliseconds(`,"inference_time_ms":`, e.InferenceTime)
	o = o.milliseconds(`,"time_to_first_token_ms":`, e.TimeToFirstToken)

	o = o.usage(e)

	o = o.number(`,"bytes_in":`, e.BytesIn)
	o = o.number(`,"bytes_out":`, e.BytesOut)
	o = o.number(`,"messages_in":`, e.MessagesIn)
	o = o.number(`,"messages_out":`, e.MessagesOut)
	o = o.number(`,"local_queue_size":`, int64(e.LocalQueueSize))

	o = o.flag(`,"streamed":`, e.Streamed)
	o = o.flag(`,"websocket":`, e.WebSocket)
	o = o.flag(`,"beta":`, e.Beta)
	o = o.flag(`,"external_endpoint":`, e.ExternalEndpoint)
	o = o.flag(`,"queued_in_colo":`, e.QueuedInColo)
	o = o.flag(`,"refused_by_entry":`, e.RefusedByEntry)
	o = o.flag(`,"partial":`, e.Partial)
	return append(o, '}')
}

// engine writes which engine the event is about.
func (o object) engine(e *analytics.Event) object {
	o = o.text(`,"endpoint":`, e.Endpoint)
	o = o.text(`,"engine":`, e.Engine)
	o = o.text(`,"worker":`, e.Worker)
	o = o.text(`,"machine":`, e.Machine)
	return o.text(`,"gpu":`, e.GPU)
}

// usage writes what the event bills.
func (o object) usage(e *analytics.Event) object {
	o = o.number(`,"prompt_tokens":`, int64(e.PromptTokens))
	o = o.number(`,"completion_tokens":`, int64(e.CompletionTokens))
	o = o.number(`,"cached_tokens":`, int64(e.CachedTokens))
	o = o.number(`,"tokens_estimated":`, int64(e.TokensEstimated))
	o = o.float(`,"audio_seconds":`, e.AudioSeconds)
	o = o.float(`,"cost":`, e.Cost)
	return o.text(`,"cost_unit":`, e.CostUnit)
}

// object is a JSON object being written. Each method returns it with one more field; all but always and time leave a zero value out. A key is
// given as it is written, with what separates it from the field before, since a fifth of the time is in the appends of such bytes.
type object []byte

func (o object) always(key, value string) object { return append(o, key...).string(value) }

func (o object) text(key, value string) object {
	if value == "" {
		return o
	}
	return o.always(key, value)
}

func (o object) texts(key string, values []string) object {
	if len(values) == 0 {
		return o
	}
	o = append(o, key...)
	separator := byte('[')
	for _, v := range values {
		o = append(o, separator).string(v)
		separator = ','
	}
	return append(o, ']')
}

func (o object) time(key string, t time.Time) object {
	o = append(append(o, key...), '"')
	o = t.AppendFormat(o, time.RFC3339Nano)
	return append(o, '"')
}

func (o object) number(key string, n int64) object {
	if n == 0 {
		return o
	}
	return strconv.AppendInt(append(o, key...), n, 10)
}

func (o object) float(key string, f float64) object {
	if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return o
	}
	o = append(o, key...)
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(o, f, 'f', -1, 64)
	}
	b, _ := json.Marshal(f) // cannot fail: f is finite
	return append(o, b...)
}

func (o object) milliseconds(key string, d analytics.Milliseconds) object {
	if d == 0 {
		return o
	}
	return d.AppendJSON(append(o, key...))
}

func (o object) flag(key string, set bool) object {
	if !set {
		return o
	}
	return append(append(o, key...), "true"...)
}

// plain has the bytes that encoding/json writes as they are.
var plain = func() (plain [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		plain[c] = !strings.ContainsRune(`"\<>&`, rune(c))
	}
	return plain
}()

// string appends s in quotes. Ids and names need no escapes; any other text goes through encoding/json.
func (o object) string(s string) object {
	for i := range len(s) {
		if !plain[s[i]] {
			b, _ := json.Marshal(s) // cannot fail: invalid UTF-8 is replaced
			return append(o, b...)
		}
	}
	o = append(o, '"')
	o = append(o, s...)
	return append(o, '"')
}
