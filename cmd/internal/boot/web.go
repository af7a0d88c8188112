package boot

import (
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// web is the HTTP endpoint for who watches over the server.
type web struct {
	srv   *http.Server
	ln    net.Listener
	ready atomic.Bool
}

// serveWeb listens at addr and serves until srv is shut down.
func serveWeb(addr string, m *Metrics, profiles bool, log *zap.Logger) (*web, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, Usage("%q is not HOST:PORT", addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	w := &web{ln: ln, srv: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, ErrorLog: zap.NewStdLog(log)}}
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "ok\n") })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if !w.ready.Load() {
			http.Error(rw, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(rw, "ok\n")
	})
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	go func() {
		if err := w.srv.Serve(ln); err != http.ErrServerClosed {
			log.Error("metrics endpoint ended", zap.Error(err))
		}
	}()
	return w, nil
}
