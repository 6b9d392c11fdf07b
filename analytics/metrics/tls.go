package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterCertificate registers when a certificate expires. listener is public or peer; expires is called at each
// scrape.
func RegisterCertificate(reg prometheus.Registerer, listener string, expires func() time.Time) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "colonnade_tls_certificate_expiry_timestamp_seconds", Help: "When the certificate in force expires, as Unix time.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(expires().Unix()) }))
}
