package boot

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"manifold/mds/admin"
)

// Cluster adds what a metadata server knows of itself and its data servers,
// asked for at each scrape. One call.
func (m *Metrics) Cluster(b admin.Backend) {
	m.registry.MustRegister(&cluster{backend: b})
}

// cluster is the collector. It describes nothing beforehand (prometheus calls
// such a one unchecked), so that each metric is named in one place.
type cluster struct{ backend admin.Backend }

// Describe implements prometheus.Collector.
func (c *cluster) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *cluster) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		desc := prometheus.NewDesc("manifold_"+name, help, pairs(labels), nil)
		metric, err := prometheus.NewConstMetric(desc, kind, v, values(labels)...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		out <- metric
	}
	const count, now = prometheus.CounterValue, prometheus.GaugeValue
	st, err := c.backend.Status(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("manifold_clients", "NFS clients.", nil, nil), err)
		return
	}
	send(now, "uptime_seconds", "Time since the metadata server's start.", st.UptimeSeconds)
	send(now, "grace", "1 while clients may reclaim after a restart and get nothing new.", truth(st.Grace))
	send(now, "clients", "NFS clients.", float64(st.Clients))
	send(now, "opens", "Files held open by clients.", float64(st.Opens))
	send(now, "locks", "Byte-range locks.", float64(st.Locks))
	send(now, "layouts", "Layouts that clients hold.", float64(st.Layouts))
	send(now, "layout_recalls", "Layouts being recalled.", float64(st.Recalls))
	send(count, "proxy_read_bytes_total", "Bytes read through the metadata server.", float64(st.ProxyReadBytes))
	send(count, "proxy_written_bytes_total", "Bytes written through the metadata server.", float64(st.ProxyWrittenBytes))
	send(count, "proxy_refused_total", "READs and WRITEs refused because proxy I/O is off.", float64(st.ProxyRefused))
	list, err := c.backend.DataServers(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("manifold_ds_up", "1 if the data server serves.", nil, nil), err)
		return
	}
	for _, d := range list {
		if d.State == "removed" {
			continue
		}
		ds := []string{"ds", strconv.FormatUint(uint64(d.ID), 10), "name", strings.ToValidUTF8(d.Name, "\uFFFD")}
		send(now, "ds_up", "1 if the data server serves.", truth(d.State != "down"), ds...)
		send(now, "ds_draining", "1 if new files are kept off the data server.", truth(d.State == "draining"), ds...)
		send(now, "ds_capacity_bytes", "Size of the data server's file system.", float64(d.CapacityBytes), ds...)
		send(now, "ds_used_bytes", "Used space of the data server's file system.", float64(d.UsedBytes), ds...)
		send(now, "ds_free_bytes", "Free space of the data server's file system.", float64(d.FreeBytes), ds...)
		send(count, "ds_read_bytes_total", "NFS data read from the data server since its start.", float64(d.ReadBytes), ds...)
		send(count, "ds_written_bytes_total", "NFS data written to the data server since its start.", float64(d.WrittenBytes), ds...)
		send(now, "ds_heartbeat_age_seconds", "Time since the data server was heard from; below 0: never.", d.HeartbeatAgeSeconds, ds...)
	}
}

// pairs and values take "name", "value", ... apart.
func pairs(labels []string) (names []string) {
	for i := 0; i < len(labels); i += 2 {
		names = append(names, labels[i])
	}
	return names
}

func values(labels []string) (list []string) {
	for i := 1; i < len(labels); i += 2 {
		list = append(list, labels[i])
	}
	return list
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
