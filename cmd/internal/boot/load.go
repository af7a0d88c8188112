package boot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// configFlag names the flag that names the configuration file.
const configFlag = "config"

// Load gives each flag of fs that is not on the command line the value of its
// environment variable (--stripe-unit: MANIFOLD_STRIPE_UNIT), else the value of
// its key in the YAML file that --config names. What was given counts as
// Changed. An unknown key, a value of the wrong form or a file that cannot be
// read is an ErrUsage that names file, line and the nearest known key.
func Load(fs *pflag.FlagSet) error {
	v := viper.New()
	v.SetEnvPrefix("manifold")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	known := map[string]*pflag.Flag{}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != configFlag && f.Name != "help" {
			known[f.Name] = f
		}
	})
	var cfg file
	if f := fs.Lookup(configFlag); f != nil {
		if !f.Changed && v.IsSet(configFlag) {
			if err := f.Value.Set(v.GetString(configFlag)); err != nil {
				return err
			}
		}
		if path := f.Value.String(); path != "" {
			var err error
			if cfg, err = readFile(path, known); err != nil {
				return err
			}
			if err := v.MergeConfigMap(cfg.values); err != nil {
				return Usage("%s: %v", path, err)
			}
		}
	}
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		if known[f.Name] == nil || f.Changed || !v.IsSet(f.Name) {
			return
		}
		source := cfg.where(f.Name)
		if env := envName(f.Name); os.Getenv(env) != "" {
			source = "environment variable " + env
		}
		if err := set(f, v.Get(f.Name)); err != nil {
			errs = append(errs, Usage("%s: %v", source, err))
		}
	})
	return errors.Join(errs...)
}

func envName(flag string) string {
	return "MANIFOLD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// set gives f a value from the environment (a string) or a file (a string, or
// strings for a list).
func set(f *pflag.Flag, value any) error {
	var err error
	switch x := value.(type) {
	case []string:
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			return fmt.Errorf("%s: one value, not a list", f.Name)
		}
		err = list.Replace(x)
	default:
		err = f.Value.Set(fmt.Sprint(x))
	}
	if err != nil {
		form := map[string]string{
			"bool": "true or false", "duration": "a time such as 90s or 2m", "int": "a whole number", "size": "a size such as 64KiB or 1MiB",
		}[f.Value.Type()]
		if form == "" {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		return fmt.Errorf("%s: %q is not %s", f.Name, fmt.Sprint(value), form)
	}
	f.Changed = true
	return nil
}
