package boot

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// Role tells the servers of one process apart in metrics.
type Role string

// The roles.
const (
	RoleMDS Role = "mds"
	RoleDS  Role = "ds"
)

// Metrics counts what the servers of the process do. Every label takes few
// values: nothing that a client chooses becomes one.
type Metrics struct {
	registry *prometheus.Registry

	operations *prometheus.CounterVec   // role, op, status
	seconds    *prometheus.HistogramVec // role, op
	replays    *prometheus.CounterVec   // role
	evicted    *prometheus.CounterVec   // role

	opened, failed, refused, records, received, sent, orphans *prometheus.CounterVec // role
	rejected                                                  *prometheus.CounterVec // role, reason
	open                                                      *prometheus.GaugeVec   // role
	slots                                                     *slots
}

func newMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), slots: newSlots()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "manifold_" + name, Help: help}, append([]string{"role"}, labels...))
		m.registry.MustRegister(v)
		return v
	}
	m.operations = counter("operations_total", "NFS operations that ended, by operation and status.", "op", "status")
	m.replays = counter("replayed_replies_total", "Replies given again from a reply cache.")
	m.evicted = counter("clients_evicted_total", "NFS clients evicted for what they did; the log says who and why.")
	m.opened = counter("rpc_connections_opened_total", "RPC connections accepted or made.")
	m.failed = counter("rpc_connections_failed_total", "RPC connections that ended with an error.")
	m.refused = counter("rpc_connections_refused_total", "Connections over the limit on their number.")
	m.records = counter("rpc_records_received_total", "RPC records read.")
	m.received = counter("rpc_received_bytes_total", "Bytes of RPC records read.")
	m.sent = counter("rpc_sent_bytes_total", "Bytes of RPC records written.")
	m.rejected = counter("rpc_rejected_calls_total", "Calls answered with an RPC error.", "reason")
	m.orphans = counter("rpc_orphan_replies_total", "Replies that no call was waiting for.")
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "manifold_rpc_connections", Help: "Open RPC connections."}, []string{"role"})
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "manifold_operation_duration_seconds", Help: "Time that an NFS operation took.",
		Buckets: prometheus.ExponentialBuckets(10e-6, 4, 11), // 10 us to 10 s
	}, []string{"role", "op"})
	m.registry.MustRegister(m.open, m.seconds, m.slots)
	return m
}

// Operations returns the observer of a role's operations.
func (m *Metrics) Operations(role Role) compound.Observer {
	labels := prometheus.Labels{"role": string(role)}
	return &operations{
		seconds: m.seconds.MustCurryWith(labels), total: m.operations.MustCurryWith(labels), replays: m.replays.With(labels),
		evicted: m.evicted.With(labels),
	}
}

// maxOp is above every operation number that has a name, but ILLEGAL's.
const maxOp = int(nfs4.OpRemoveXattr) + 1

// operations keeps the metrics of each operation at hand: to look them up by
// label costs more than a small operation does.
type operations struct {
	seconds prometheus.ObserverVec
	total   *prometheus.CounterVec
	replays prometheus.Counter
	evicted prometheus.Counter
	known   [maxOp]atomic.Pointer[operation]
}

type operation struct {
	name    string
	seconds prometheus.Observer
	ok      prometheus.Counter
}

// Operation: see compound.Observer. Operation numbers come from the wire; the
// ones without a name count as ILLEGAL.
func (o *operations) Operation(num nfs4.OpNum, s nfs4.Status, d time.Duration) {
	if !num.Known(2) || int(num) >= maxOp {
		num = 0
	}
	op := o.known[num].Load()
	if op == nil {
		name := nfs4.OpIllegal.String()
		if num != 0 {
			name = num.String()
		}
		op = &operation{name: name, seconds: o.seconds.WithLabelValues(name), ok: o.total.WithLabelValues(name, nfs4.OK.String())}
		o.known[num].Store(op)
	}
	op.seconds.Observe(d.Seconds())
	if s == nfs4.OK {
		op.ok.Inc()
		return
	}
	o.total.WithLabelValues(op.name, s.String()).Inc()
}

// Replay: see compound.Observer.
func (o *operations) Replay() { o.replays.Inc() }

// Evicted: see compound.Observer.
func (o *operations) Evicted() { o.evicted.Inc() }

// Connections returns the observer of a role's RPC connections.
func (m *Metrics) Connections(role Role) rpc.Observer {
	r := string(role)
	return &connections{
		opened: m.opened.WithLabelValues(r), failed: m.failed.WithLabelValues(r), refused: m.refused.WithLabelValues(r),
		open: m.open.WithLabelValues(r), records: m.records.WithLabelValues(r), received: m.received.WithLabelValues(r),
		sent: m.sent.WithLabelValues(r), orphans: m.orphans.WithLabelValues(r),
		rejected: m.rejected.MustCurryWith(prometheus.Labels{"role": r}),
	}
}
