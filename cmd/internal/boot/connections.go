package boot

import (
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"manifold/xdr/rpc"
)

// connections is a role's rpc.Observer.
type connections struct {
	opened, failed, refused, records, received, sent, orphans prometheus.Counter
	open                                                      prometheus.Gauge
	rejected                                                  *prometheus.CounterVec
}

func (c *connections) ConnOpened(*rpc.Conn) {
	c.opened.Inc()
	c.open.Inc()
}

func (c *connections) ConnClosed(_ *rpc.Conn, err error) {
	c.open.Dec()
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed.Inc()
	}
}

func (c *connections) ConnRefused() { c.refused.Inc() }

func (c *connections) Received(bytes int) {
	c.records.Inc()
	c.received.Add(float64(bytes))
}

func (c *connections) Sent(bytes int) { c.sent.Add(float64(bytes)) }

func (c *connections) Rejected(r rpc.Reject) {
	reason, ok := map[rpc.Stat]string{
		rpc.ProgUnavail: "program", rpc.ProgMismatch: "version", rpc.ProcUnavail: "procedure", rpc.GarbageArgs: "garbage",
		rpc.SystemErr: "system", rpc.RPCMismatch: "rpc_version", rpc.AuthBadCred: "credential",
		rpc.AuthRejectedCred: "credential_rejected", rpc.AuthBadVerf: "verifier", rpc.AuthTooWeak: "too_weak",
	}[r.Stat]
	if !ok {
		reason = "other"
	}
	c.rejected.WithLabelValues(reason).Inc()
}

func (c *connections) Orphan() { c.orphans.Inc() }
