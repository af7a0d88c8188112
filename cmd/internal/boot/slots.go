package boot

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"manifold/xdr/session"
)

// Slots adds how the slots of a server's sessions are used, asked for at each
// scrape. Servers of one role are added up.
func (m *Metrics) Slots(role Role, use func() session.SlotUse) {
	m.slots.mu.Lock()
	defer m.slots.mu.Unlock()
	m.slots.of[role] = append(m.slots.of[role], use)
}

// slots is the collector.
type slots struct {
	mu sync.Mutex
	of map[Role][]func() session.SlotUse

	sessions, granted, busy, bytes, recalls *prometheus.Desc
}

func newSlots() *slots {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("manifold_"+name, help, []string{"role"}, nil)
	}
	return &slots{
		of:       map[Role][]func() session.SlotUse{},
		sessions: desc("sessions", "NFS sessions."),
		granted:  desc("session_slots", "Slots of all sessions: requests that clients may have under way."),
		busy:     desc("session_slots_in_use", "Slots with a request under way."),
		bytes:    desc("reply_cache_bytes", "Memory that the replies kept for the slots may take."),
		recalls:  desc("session_slot_recalls_total", "Sessions whose client was told to give slots back."),
	}
}

// Describe implements prometheus.Collector.
func (c *slots) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.sessions, c.granted, c.busy, c.bytes, c.recalls} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *slots) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for role, servers := range c.of {
		var sum session.SlotUse
		for _, use := range servers {
			u := use()
			sum.Sessions += u.Sessions
			sum.Granted += u.Granted
			sum.InUse += u.InUse
			sum.CacheBytes += u.CacheBytes
			sum.Recalls += u.Recalls
		}
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			out <- prometheus.MustNewConstMetric(d, kind, v, string(role))
		}
		send(c.sessions, prometheus.GaugeValue, float64(sum.Sessions))
		send(c.granted, prometheus.GaugeValue, float64(sum.Granted))
		send(c.busy, prometheus.GaugeValue, float64(sum.InUse))
		send(c.bytes, prometheus.GaugeValue, float64(sum.CacheBytes))
		send(c.recalls, prometheus.CounterValue, float64(sum.Recalls))
	}
}
