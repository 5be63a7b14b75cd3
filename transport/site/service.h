/* service: notifies the service manager, systemd, that started this process. */
#ifndef SKEP_TRANSPORT_SITE_SERVICE_H
#define SKEP_TRANSPORT_SITE_SERVICE_H

/* service_send_lines: send lines such as "READY=1\nSTATUS=training" (sd_notify(3)) to the
 * socket that NOTIFY_SOCKET names. Does nothing without that variable, or if the socket does not
 * accept them: a process works as well without its manager. */
void service_send_lines(const char *lines);

#endif
