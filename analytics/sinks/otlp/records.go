package otlp

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"colonnade/analytics"
	"colonnade/analytics/columns"
	"colonnade/analytics/ship"
)

// records makes log records of events. Only a provider of the SDK can make them: it gives them to its processor, which is this.
type records struct {
	provider *sdklog.LoggerProvider
	logger   log.Logger
	made     []sdklog.Record
}

func newRecords() *records {
	r := &records{}
	r.provider = sdklog.NewLoggerProvider(sdklog.WithProcessor(r), sdklog.WithAttributeCountLimit(-1), sdklog.WithAttributeValueLengthLimit(-1),
		sdklog.WithResource(resource.NewSchemaless(attribute.String("service.name", "colonnade"))))
	r.logger = r.provider.Logger("colonnade")
	return r
}

// of returns the records of events. They are valid until the next call. It pauses between pieces.
func (r *records) of(events []analytics.Event, pause func()) []sdklog.Record {
	clear(r.made)
	r.made = r.made[:0]
	for i := range events {
		r.logger.Emit(context.Background(), record(&events[i]))
		if i%ship.PieceEvents == ship.PieceEvents-1 {
			pause()
		}
	}
	return r.made
}

func record(e *analytics.Event) log.Record {
	var r log.Record
	r.SetTimestamp(e.Time)
	r.SetObservedTimestamp(e.Time) // so that a repeated record is the same
	r.SetEventName("colonnade." + string(e.Kind))
	r.SetSeverity(severity(e))
	r.SetSeverityText(severity(e).String())
	r.SetBody(attribute.StringValue(string(e.Kind) + " " + cmp.Or(string(e.Outcome), e.Reason)))
	for _, c := range columns.All() {
		if value, known := valueOf(c.Value(e)); known {
			r.AddAttributes(attribute.KeyValue{Key: attribute.Key("colonnade." + c.Name), Value: value})
		}
	}
	return r
}

// severity returns warn for what an operator should look at.
func severity(e *analytics.Event) log.Severity {
	if e.Kind == analytics.KindEngine {
		return log.SeverityWarn
	}
	switch e.Outcome {
	case analytics.OutcomeEngineError, analytics.OutcomeTimeout, analytics.OutcomeCrashed:
		return log.SeverityWarn
	}
	return log.SeverityInfo
}

// valueOf returns the value of a column, and false for one that the JSON of the event does not have either.
func valueOf(v any) (attribute.Value, bool) {
	switch v := v.(type) {
	case string:
		return attribute.StringValue(v), true
	case []string:
		return attribute.StringSliceValue(v), len(v) > 0
	case int64:
		return attribute.Int64Value(v), true
	case float64:
		return attribute.Float64Value(v), true
	case bool:
		return attribute.BoolValue(v), v
	}
	return attribute.Value{}, false // also the time, which is that of the record
}

// OnEmit implements sdklog.Processor.
func (r *records) OnEmit(_ context.Context, record *sdklog.Record) error {
	r.made = append(r.made, record.Clone())
	return nil
}

// Enabled implements sdklog.Processor.
func (r *records) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// Shutdown implements sdklog.Processor.
func (r *records) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdklog.Processor.
func (r *records) ForceFlush(context.Context) error { return nil }

func (r *records) close() error { return r.provider.Shutdown(context.Background()) }
