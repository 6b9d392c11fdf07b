package s3

import (
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"colonnade/analytics"
	"colonnade/analytics/columns"
)

// rowType is a struct with a field for each column: the library takes the schema of a file from its tags.
var rowType = rowTypeOf(columns.All())

func rowTypeOf(all []columns.Column) reflect.Type {
	var fields []reflect.StructField
	for i, c := range all {
		tag := c.Name
		typ := reflect.TypeFor[string]()
		switch c.Type {
		case columns.Texts:
			typ, tag = reflect.TypeFor[[]string](), tag+",list"
		case columns.Integer:
			typ = reflect.TypeFor[int64]()
		case columns.Number:
			typ = reflect.TypeFor[float64]()
		case columns.Flag:
			typ = reflect.TypeFor[bool]()
		case columns.Time:
			typ, tag = reflect.TypeFor[time.Time](), tag+",timestamp(microsecond)"
		}
		if c.Optional {
			tag += ",optional"
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("Column%d", i), Type: typ, Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", tag))})
	}
	return reflect.StructOf(fields)
}

// WriteParquet writes a file of events. An absent field is NULL.
func WriteParquet(to io.Writer, events []analytics.Event) error {
	w := parquet.NewWriter(to, parquet.SchemaOf(reflect.New(rowType).Interface()), parquet.Compression(&zstd.Codec{}),
		parquet.KeyValueMetadata("colonnade.schema", columns.Comment()))
	for i := range events {
		row := reflect.New(rowType)
		for field, c := range columns.All() {
			if value := c.Value(&events[i]); value != nil {
				row.Elem().Field(field).Set(reflect.ValueOf(value))
			}
		}
		if err := w.Write(row.Interface()); err != nil {
			return fmt.Errorf("cannot write event as Parquet: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("cannot write Parquet: %w", err)
	}
	return nil
}
