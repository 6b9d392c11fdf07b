package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"colonnade/analytics"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

// sendTimeout bounds a batch. One that is not stored by then comes again.
const sendTimeout = 2 * time.Minute

// Sink writes files.
type Sink struct {
	ship.Receiver

	endpoint, bucket, prefix string
	client                   *minio.Client
	transport                *http.Transport
	secret                   *secret // nil = the environment has it
}

// Open returns the sink of a description. It checks the settings. Whether it may put files, only a batch shows: a user that may
// put them need not be one that may ask for anything else.
func Open(spec *sinks.Spec, env sinks.Environment) (*Sink, error) {
	region := spec.Param("region", "us-east-1")
	endpoint, err := url.Parse(spec.Param("endpoint", "https://s3."+region+".amazonaws.com"))
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" || strings.Trim(endpoint.Path, "/") != "" {
		return nil, fmt.Errorf("endpoint=%s: must be a URL without a path, such as http://minio:9000", spec.Param("endpoint", ""))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forbidigo // each batch has a deadline
	s := &Sink{endpoint: endpoint.String(), bucket: spec.URL.Host, prefix: strings.Trim(spec.URL.Path, "/"), transport: transport}
	// Without a credential, those are used that other programs for S3 find: AWS_ACCESS_KEY_ID, ~/.aws/credentials, the role of the machine.
	providers := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	if env.Credential != nil {
		s.secret = &secret{read: env.Credential}
		providers = credentials.New(s.secret)
	}
	s.client, err = minio.New(endpoint.Host, &minio.Options{
		Creds: providers, Secure: endpoint.Scheme == "https", Region: region, Transport: transport, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint=%s: %w", s.endpoint, err)
	}
	return s, nil
}

// Send implements ship.Sink. It returns once all files of the batch are stored.
func (s *Sink) Send(ctx context.Context, b *ship.Batch) error {
	events, err := b.Events()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for _, hour := range byHour(events) {
		var file bytes.Buffer
		if err := WriteParquet(&file, hour); err != nil {
			return ship.Rejected(err)
		}
		name := path.Join(s.prefix, hour[0].Time.UTC().Format("date=2006-01-02/hour=15"), fileName(b, events))
		_, err := s.client.PutObject(ctx, s.bucket, name, &file, int64(file.Len()), minio.PutObjectOptions{
			ContentType: "application/vnd.apache.parquet", DisableMultipart: true,
		})
		if err != nil {
			return s.explain(name, err)
		}
	}
	return nil
}

// fileName returns the name of the files of a batch. It has the id of the first event, since a node whose data directory is lost begins with
// the same positions again, perhaps within the same hour.
func fileName(b *ship.Batch, events []analytics.Event) string {
	return fmt.Sprintf("%s-%s-%s.parquet", url.PathEscape(b.Node), b.First, url.PathEscape(events[0].EventID))
}

// byHour returns the events of each hour, in the order of the hours.
func byHour(events []analytics.Event) [][]analytics.Event {
	hours := map[time.Time][]analytics.Event{}
	for _, e := range events {
		hour := e.Time.UTC().Truncate(time.Hour)
		hours[hour] = append(hours[hour], e)
	}
	var all [][]analytics.Event
	for _, of := range hours {
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b []analytics.Event) int { return a[0].Time.Compare(b[0].Time) })
	return all
}

// explain adds the setting that an error is about, its value, and what to do.
func (s *Sink) explain(name string, err error) error {
	var unreadable secretError
	if errors.As(err, &unreadable) {
		return unreadable.err
	}
	switch minio.ToErrorResponse(err).Code {
	case "NoSuchBucket":
		return fmt.Errorf("bucket %s at endpoint=%s: %w; create the bucket, or correct the URL", s.bucket, s.endpoint, err)
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		return fmt.Errorf("bucket %s at endpoint=%s: %w; check what credential names (ACCESS_KEY_ID:SECRET_ACCESS_KEY), that it may put objects there, and region",
			s.bucket, s.endpoint, err)
	case "AuthorizationHeaderMalformed", "PermanentRedirect":
		return fmt.Errorf("bucket %s at endpoint=%s: %w; set region to that of the bucket", s.bucket, s.endpoint, err)
	}
	return fmt.Errorf("%s in bucket %s at endpoint=%s: %w", name, s.bucket, s.endpoint, err)
}

// Close implements ship.Sink.
func (s *Sink) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}
