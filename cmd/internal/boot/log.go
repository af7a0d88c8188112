package boot

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger logs to standard error.
func newLogger(level, format string) (*zap.Logger, error) {
	at, err := zapcore.ParseLevel(level)
	if err != nil || at > zapcore.ErrorLevel {
		return nil, Usage("log-level: %q is not debug, info, warn or error", level)
	}
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	var enc zapcore.Encoder
	switch format {
	case "json":
		enc = zapcore.NewJSONEncoder(cfg)
	case "console":
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		cfg.ConsoleSeparator = "  "
		enc = zapcore.NewConsoleEncoder(cfg)
	default:
		return nil, Usage("log-format: %q is not console or json", format)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(os.Stderr), at)), nil
}
