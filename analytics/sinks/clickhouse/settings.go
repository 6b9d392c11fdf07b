package clickhouse

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"colonnade/analytics/sinks"
)

// dialTimeout bounds the beginning of a connection.
const dialTimeout = 10 * time.Second

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// parse returns the settings of connections without a password, and the table.
func parse(spec *sinks.Spec) (*clickhouse.Options, table, error) {
	t := table{database: strings.Trim(spec.URL.Path, "/"), name: spec.Param("table", "colonnade_events")}
	switch {
	case spec.URL.Port() == "" || strings.Contains(spec.URL.Host, ","):
		return nil, t, fmt.Errorf("%s: the URL needs one host and the port of ClickHouse's HTTP interface, 8123, or 8443 with tls=true; write for example %s", spec.URL, spec.Scheme.Example)
	case !identifier.MatchString(t.database):
		return nil, t, fmt.Errorf("%s: the URL must name a database of letters, digits and underscores; write for example %s", spec.URL, spec.Scheme.Example)
	case !identifier.MatchString(t.name):
		return nil, t, fmt.Errorf("table=%s: must be a name of letters, digits and underscores, such as colonnade_events; the database is in the URL", t.name)
	}
	compression, err := codec(spec.Compression)
	if err != nil {
		return nil, t, err
	}
	tls, err := spec.TLS()
	if err != nil {
		return nil, t, err
	}
	return &clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{spec.URL.Host}, TLS: tls, Compression: compression,
		Auth:        clickhouse.Auth{Database: t.database, Username: spec.URL.User.Username()},
		DialTimeout: dialTimeout, MaxOpenConns: 1, MaxIdleConns: 1,
		ClientInfo: clickhouse.ClientInfo{Products: []struct{ Name, Version string }{{Name: "colonnade", Version: "1"}}},
		// The answer is there when all is done. Batches are large enough, and an error must be of this batch alone.
		Settings: clickhouse.Settings{"wait_end_of_query": 1, "async_insert": 0},
	}, t, nil
}

func codec(setting string) (*clickhouse.Compression, error) {
	switch setting {
	case "", "none":
		return &clickhouse.Compression{Method: clickhouse.CompressionNone}, nil
	case "gzip":
		return &clickhouse.Compression{Method: clickhouse.CompressionGZIP, Level: 3}, nil
	case "zstd":
		return &clickhouse.Compression{Method: clickhouse.CompressionZSTD}, nil
	}
	return nil, fmt.Errorf("compression=%s: must be none, gzip or zstd", setting)
}
