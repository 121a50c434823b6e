{{- define "aggregator.labels" -}}
app: {{ .Release.Name }}
app.kubernetes.io/name: aggregator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "aggregator.selector" -}}
app: {{ .Release.Name }}
{{- end }}

{{- define "aggregator.configMap" -}}
{{ .Values.existingConfigMap | default .Release.Name }}
{{- end }}

{{- /* The user's config, which --set-file gives as a text. */}}
{{- define "aggregator.given" -}}
{{- $given := .Values.config }}
{{- if kindIs "string" $given }}
{{- $given = fromYaml $given }}
{{- with $given.Error }}
{{- fail (printf "config is no YAML: %s" .) }}
{{- end }}
{{- end }}
{{- toYaml $given }}
{{- end }}

{{- /* The config with what the chart knows; the user's own words are stronger. */}}
{{- define "aggregator.config" -}}
{{- $config := include "aggregator.given" . | fromYaml }}
{{- if not $config.hub }}
{{- fail "config.hub is missing: set config (hub and sources, docs/configure.md), or existingConfigMap" }}
{{- end }}
{{- if not (or .Values.state.enabled (dig "checkpoint" "path" "" $config)) }}
{{- fail "config.checkpoint.path is missing: with state.enabled: false it names an object store" }}
{{- end }}
{{- if not (dig "api" "listen" "0.0.0.0:8083" $config | hasSuffix ":8083") }}
{{- fail "config.api.listen: the pods are asked on port 8083; leave it out" }}
{{- end }}
{{- $tls := dig "api" "tls" dict $config | default dict }}
{{- if $tls.client_ca }}
{{- fail "config.api.tls.client_ca: the probes of Kubernetes have no certificate; leave it out, and use the tokens" }}
{{- end }}
{{- $api := dict "listen" "0.0.0.0:8083" "read_token" "${env:READ_TOKEN}" "write_token" "${env:WRITE_TOKEN}" }}
{{- $own := dict "api" $api }}
{{- if .Values.state.enabled }}
{{- $_ := set $own "checkpoint" (dict "path" "/state") }}
{{- end }}
{{- if .Values.executors.enabled }}
{{- $_ := set $own "spark" (include "aggregator.spark" . | fromYaml) }}
{{- end }}
{{- mergeOverwrite $own $config | toYaml }}
{{- end }}

{{- /* How Spark starts executors, which find the pod of the driver by its address. */}}
{{- define "aggregator.spark" -}}
master: k8s://https://kubernetes.default.svc
conf:
  spark.executor.instances: {{ .Values.executors.instances | quote }}
  spark.executor.cores: {{ .Values.executors.cores | quote }}
  spark.executor.memory: {{ .Values.executors.memory }}
  spark.kubernetes.executor.request.cores: {{ .Values.executors.requestCores | quote }}
  spark.kubernetes.container.image: {{ .Values.executors.image }}
  spark.kubernetes.namespace: {{ .Release.Namespace }}
  # Executors end with the pod that started them.
  spark.kubernetes.driver.pod.name: "${env:POD_NAME}"
  spark.kubernetes.executor.label.app: {{ include "aggregator.executor" . }}
  spark.driver.host: "${env:POD_IP}"
  spark.driver.bindAddress: "0.0.0.0"
  spark.driver.port: "7078"
  spark.driver.blockManager.port: "7079"
{{- end }}

{{- define "aggregator.executor" -}}
{{ .Release.Name }}-executor
{{- end }}

{{- define "aggregator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary .Release.Name "" .Values.executors.enabled) }}
{{- end }}

{{- define "aggregator.scheme" -}}
{{ ternary "HTTPS" "HTTP" (or .Values.tls (not (empty (dig "api" "tls" dict (include "aggregator.given" . | fromYaml))))) }}
{{- end }}
