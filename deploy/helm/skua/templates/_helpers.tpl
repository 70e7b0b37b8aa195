{{- /* What each of the release's objects is called in front. */ -}}
{{- define "skua.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* Labels by which a part's pods are found: (dict "root" $ "part" "node"). They never change. */ -}}
{{- define "skua.selector" -}}
{"app.kubernetes.io/name": "skua", "app.kubernetes.io/instance": {{ .root.Release.Name | quote }}, "app.kubernetes.io/component": {{ .part | quote }}}
{{- end -}}

{{- define "skua.labels" -}}
app.kubernetes.io/name: skua
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part | quote }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end -}}

{{- define "skua.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- /* By which name others reach this pod: (dict "root" $ "part" "node" "pod" "$(POD_NAME)"). */ -}}
{{- define "skua.host" -}}
{{- printf "%s.%s-%s.%s.svc.%s" .pod (include "skua.name" .root) .part .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{- /* All control processes. */ -}}
{{- define "skua.control" -}}
{{- $addresses := list -}}
{{- range $i := until (int .Values.control.replicas) -}}
{{- $pod := printf "%s-control-%d" (include "skua.name" $) $i -}}
{{- $addresses = append $addresses (printf "%s:7400" (include "skua.host" (dict "root" $ "part" "control" "pod" $pod))) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}

{{- /* Options of certificates, as a YAML list: (dict "root" $ "name" "$(POD_NAME)"). The tools take no --security. */ -}}
{{- define "skua.certificates" -}}
{{- if eq .root.Values.security.mode "certificates" -}}
- --cert=/etc/skua/certificates/{{ .name }}.pem
- --key=/etc/skua/certificates/{{ .name }}.key
- --ca=/etc/skua/certificates/ca.pem
{{- end -}}
{{- end -}}

{{- define "skua.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end -}}

{{- define "skua.pod" -}}
automountServiceAccountToken: false
{{- /* Else each program has variables such as SKUA_GATEWAY_PORT, which are not its options. */}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "skua.container" -}}
image: {{ include "skua.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Namespaces with quotas take no container without these. */ -}}
{{- define "skua.toolResources" -}}
{requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 128Mi}}
{{- end -}}

{{- /* Pods of a part on several machines, if there are: (dict "root" $ "part" "gateway"). */ -}}
{{- define "skua.apart" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ include "skua.selector" . }}
{{- end -}}

{{- /* A program is started again when its threads hang, and gets traffic when it may get work. */ -}}
{{- define "skua.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{- define "skua.mount" -}}
{{- if eq .Values.security.mode "certificates" -}}
- {name: certificates, mountPath: /etc/skua/certificates, readOnly: true}
{{- end -}}
{{- end -}}

{{- /* (dict "root" $ "secret" NAME) */ -}}
{{- define "skua.volume" -}}
{{- if eq .root.Values.security.mode "certificates" -}}
- name: certificates
  secret: {secretName: {{ .secret | quote }}, defaultMode: 0440}
{{- end -}}
{{- end -}}

{{- /* How the gateway's clients come: tls or off-unsafe. */ -}}
{{- define "skua.clients" -}}
{{- $security := .Values.gateway.clients.security -}}
{{- if eq $security "auto" -}}
{{- ternary "off-unsafe" "tls" (eq .Values.security.mode "off-unsafe") -}}
{{- else -}}
{{- $security -}}
{{- end -}}
{{- end -}}

{{- /* Of a part's storage: .Values.node.storage. */ -}}
{{- define "skua.claim" -}}
- metadata: {name: data}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . | quote }}
    {{- end }}
    resources: {requests: {storage: {{ .size | quote }}}}
{{- end -}}
