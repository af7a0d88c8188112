// Package boot is what every server program needs before and around its
// servers, and the only package that knows viper, log sinks, signals and the
// metrics endpoint.
//
// Its nouns: Load fills a command's flags in from the environment and a
// configuration file; a Size is a flag in bytes; Options are the flags that all
// server commands share, and Start makes of them an App: the log, the Metrics
// and the HTTP endpoint that shows them. Signals ends a context, LockFolder
// keeps a second process out, Explain says why an address cannot be had.
package boot

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
)

// ErrUsage marks errors of who wrote the command line, the environment or the
// configuration file.
var ErrUsage = errors.New("usage")

// usageError is an ErrUsage whose text is the message alone.
type usageError struct{ msg string }

func (e usageError) Error() string   { return e.msg }
func (usageError) Is(err error) bool { return err == ErrUsage }

// Usage returns an error that is an ErrUsage.
func Usage(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// Options are the flags that every server command has.
type Options struct {
	Config    string
	LogLevel  string
	LogFormat string
	Metrics   string
	Pprof     bool
}

// Register adds the flags to fs.
func (o *Options) Register(fs *pflag.FlagSet) {
	fs.StringVar(&o.Config, "config", "", "YAML `FILE` with these settings: its keys are the flags' names")
	fs.StringVar(&o.LogLevel, "log-level", "info", "least `LEVEL` that is logged: debug, info, warn or error")
	fs.StringVar(&o.LogFormat, "log-format", "console", "`FORMAT` of the log on standard error: console or json")
	fs.StringVar(&o.Metrics, "metrics", "", "`HOST:PORT` for /metrics (Prometheus), /healthz and /readyz; off if empty")
	fs.BoolVar(&o.Pprof, "pprof", false, "also /debug/pprof at the address of --metrics")
}

// App is what a server command runs in.
type App struct {
	Log     *zap.Logger
	Metrics *Metrics
	web     *web
}

// Start makes an App once the flags are loaded. An endpoint asked for listens
// when it returns, and is not ready yet.
func (o *Options) Start() (*App, error) {
	log, err := newLogger(o.LogLevel, o.LogFormat)
	if err != nil {
		return nil, err
	}
	if o.Pprof && o.Metrics == "" {
		return nil, Usage("--pprof needs --metrics HOST:PORT, where it is to be found")
	}
	app := &App{Log: log, Metrics: newMetrics()}
	if o.Metrics != "" {
		if app.web, err = serveWeb(o.Metrics, app.Metrics, o.Pprof, log); err != nil {
			return nil, fmt.Errorf("--metrics: %w", Explain(err))
		}
	}
	return app, nil
}

// SetReady says whether /readyz tells others to send clients here.
func (a *App) SetReady(ready bool) {
	if a.web != nil {
		a.web.ready.Store(ready)
	}
}

// MetricsAddr is where the endpoint listens, "" if there is none.
func (a *App) MetricsAddr() string {
	if a.web == nil {
		return ""
	}
	return a.web.ln.Addr().String()
}

// Close ends the endpoint and writes the log out.
func (a *App) Close(ctx context.Context) {
	if a.web != nil {
		if err := a.web.srv.Shutdown(ctx); err != nil {
			a.Log.Debug("metrics endpoint", zap.Error(err))
		}
	}
	// A terminal or a pipe cannot be synced, which zap reports; a file can.
	_ = a.Log.Sync()
}
